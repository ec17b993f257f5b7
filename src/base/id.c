/* SPDX-License-Identifier: MIT */
#include "base/id.h"

#include "base/digest.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void
id_random_bytes(void *out, size_t n)
{
    char *at = out;

    while (n > 0) {
        ssize_t r = getrandom(at, n, 0);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0) { /* guessable ids would be worse than none */
            log_error("getrandom failed");
            abort();
        }
        at += r;
        n -= (size_t)r;
    }
}

void
id_uuid4(char out[ID_UUID_SIZE])
{
    uint8_t b[16];
    char hex[33];

    id_random_bytes(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* RFC 9562 5.4: version 4 */
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80); /* and the variant */
    hex_encode(b, sizeof b, hex);
    (void)snprintf(out, ID_UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
                   hex + 20);
}

void
id_random_hex(char *out, size_t n_bytes)
{
    out[0] = '\0';
    while (n_bytes > 0) {
        uint8_t b[32];
        size_t k = n_bytes < sizeof b ? n_bytes : sizeof b;

        id_random_bytes(b, k);
        hex_encode(b, k, out);
        out += 2 * k;
        n_bytes -= k;
    }
}

int64_t
id_random_i64(void)
{
    uint64_t v;

    do {
        id_random_bytes(&v, sizeof v);
        v &= (UINT64_C(1) << 62) - 1;
    } while (v == 0);
    return (int64_t)v;
}

bool
id_in_alphabet(const char *s, size_t n, size_t min, size_t max)
{
    if (n < min || n > max)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-'))
            return false;
    }
    return true;
}
