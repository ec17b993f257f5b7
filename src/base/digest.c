/* SPDX-License-Identifier: MIT */
#include "base/digest.h"

#include "base/log.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

struct sha256 {
    EVP_MD_CTX *ctx;
};

/* SHA-256 fails only without memory or without the algorithm: neither can be gone on with. */
static void
need(int ok)
{
    if (!ok) {
        log_error("libcrypto: SHA-256 failed");
        abort();
    }
}

/* Looked up once: by way of EVP_sha256() OpenSSL 3 looks for the implementation at each use, which
 * costs more than hashing something short. */
static const EVP_MD *
sha256_method(void)
{
    static EVP_MD *md;

    if (md == NULL)
        md = EVP_MD_fetch(NULL, "SHA256", NULL);
    need(md != NULL);
    return md;
}

struct sha256 *
sha256_new(void)
{
    struct sha256 *s = xcalloc(1, sizeof *s);

    s->ctx = EVP_MD_CTX_new();
    need(s->ctx != NULL);
    need(EVP_DigestInit_ex(s->ctx, sha256_method(), NULL));
    return s;
}

void
sha256_add(struct sha256 *s, const void *p, size_t n)
{
    need(EVP_DigestUpdate(s->ctx, p, n));
}

void
sha256_finish(struct sha256 *s, uint8_t out[SHA256_SIZE])
{
    need(EVP_DigestFinal_ex(s->ctx, out, NULL));
    sha256_free(s);
}

void
sha256_free(struct sha256 *s)
{
    if (!s)
        return;
    EVP_MD_CTX_free(s->ctx);
    free(s);
}

void
sha256_of(const void *p, size_t n, uint8_t out[SHA256_SIZE])
{
    need(EVP_Digest(p, n, out, NULL, sha256_method(), NULL));
}

void
sha256_hex_of(const void *p, size_t n, char out[SHA256_HEX_SIZE])
{
    uint8_t raw[SHA256_SIZE];

    sha256_of(p, n, raw);
    hex_encode(raw, sizeof raw, out);
}

void
hex_encode(const uint8_t *p, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        *out++ = digits[p[i] >> 4];
        *out++ = digits[p[i] & 15];
    }
    *out = '\0';
}

int
hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int
base64_encode(struct buf *out, const void *p, size_t n)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *u = p;
    char *to;

    if (n > SIZE_MAX / 2) {
        out->failed = 1;
        return -1;
    }
    to = buf_reserve(out, (n + 2) / 3 * 4);
    if (!to)
        return -1;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t v = (uint32_t)u[i] << 16;

        if (left > 1)
            v |= (uint32_t)u[i + 1] << 8;
        if (left > 2)
            v |= u[i + 2];
        *to++ = alphabet[v >> 18];
        *to++ = alphabet[v >> 12 & 63];
        *to++ = left > 1 ? alphabet[v >> 6 & 63] : '=';
        *to++ = left > 2 ? alphabet[v & 63] : '=';
    }
    buf_added(out, (n + 2) / 3 * 4);
    return 0;
}

static int
base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    if (c == '/')
        return 63;
    return -1;
}

/*
 * Decodes into `to`, which has room for three bytes a full group of four; the number of bytes, -1
 * for malformed text.
 */
static ssize_t
decode_groups(char *to, const char *s, size_t n, bool lax)
{
    const char *start = to;
    uint32_t v = 0;
    unsigned have = 0, pad = 0;

    for (size_t i = 0; i < n; i++) {
        int d;

        if (lax && (s[i] == '\n' || s[i] == '\r'))
            continue;
        if (s[i] == '=' && have >= 2) {
            pad++;
            d = 0;
        } else {
            d = base64_value(s[i]);
            if (d < 0 || pad > 0)
                return -1;
        }
        v = v << 6 | (uint32_t)d;
        if (++have < 4)
            continue;
        /* RFC 4648 3.5: the bits behind the last byte must be zero. */
        if ((pad == 1 && (v & 0xff)) || (pad == 2 && (v & 0xffff)))
            return -1;
        *to++ = (char)(v >> 16);
        if (pad < 2)
            *to++ = (char)(v >> 8 & 0xff);
        if (pad < 1)
            *to++ = (char)(v & 0xff);
        v = 0;
        have = 0;
    }
    return have ? -1 : to - start;
}

int
base64_decode(struct buf *out, const char *s, size_t n, bool lax)
{
    size_t chars = 0, pad = 0;
    ssize_t got;
    char *to;

    for (size_t i = 0; i < n; i++) {
        chars += !(lax && (s[i] == '\n' || s[i] == '\r'));
        pad += s[i] == '=';
    }
    if (chars % 4 != 0 || pad > 2 || (chars == 0 && pad > 0))
        return 0;
    to = buf_reserve(out, chars / 4 * 3 - pad);
    if (!to)
        return -1;
    got = decode_groups(to, s, n, lax);
    if (got < 0) {
        buf_added(out, 0); /* the NUL back in its place */
        return 0;
    }
    buf_added(out, (size_t)got);
    return 1;
}

bool
digest_equal(const void *a, const void *b, size_t n)
{
    return CRYPTO_memcmp(a, b, n) == 0;
}
