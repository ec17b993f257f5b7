/* SPDX-License-Identifier: MIT */
#include "api/files.h"

#include <string.h>

#define NAME "sha-256"

/* The value of the dictionary's member sha-256 (RFC 8941 3.2, the last of its name); NULL none. */
static const char *
find_value(const char *header, size_t *ret_n)
{
    const char *found = NULL;

    while (*header != '\0') {
        size_t n, k = sizeof(NAME) - 1;

        header += strspn(header, " \t,");
        n = strcspn(header, ",");
        if (n > k && memcmp(header, NAME, k) == 0 && header[k] == '=') {
            found = header + k + 1;
            *ret_n = n - k - 1;
            while (*ret_n > 0 && strchr(" \t", found[*ret_n - 1]) != NULL)
                (*ret_n)--;
        }
        header += n;
    }
    return found;
}

int
repr_digest_parse(const char *header, uint8_t ret[SHA256_SIZE])
{
    _cleanup_buf_ struct buf raw = BUF_INIT(SHA256_SIZE);
    const char *v;
    size_t n;

    if (header == NULL)
        return 0;
    v = find_value(header, &n);
    if (v == NULL)
        return 0;
    if (n < 2 || v[0] != ':' || v[n - 1] != ':' || base64_decode(&raw, v + 1, n - 2, false) != 1 ||
        raw.len != SHA256_SIZE)
        return -1;
    memcpy(ret, raw.data, SHA256_SIZE);
    return 1;
}

bool
repr_digest_wanted(const char *header)
{
    size_t n;
    const char *v = header != NULL ? find_value(header, &n) : NULL;

    return v != NULL && n > 0 && v[0] >= '1' && v[0] <= '9';
}

void
repr_digest_header(struct http_exchange *x, const uint8_t digest[SHA256_SIZE])
{
    _cleanup_buf_ struct buf text = BUF_INIT(64);

    if (base64_encode(&text, digest, SHA256_SIZE) == 0)
        http_add_header(x, "Repr-Digest", NAME "=:%s:", text.data);
}
