/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/num.h"
#include "base/utf8.h"

static void
want(bool ok)
{
    if (!ok)
        abort();
}

/* Scrubbed text is valid, valid text stays; a cut ends and begins between sequences. */
static void
utf8(const char *p, size_t n)
{
    struct buf out = BUF_INIT(3 * n);
    bool valid = utf8_valid(p, n);

    want(utf8_scrub(&out, p, n) == 0 && utf8_valid(buf_str(&out), out.len));
    want(!valid || (out.len == n && memcmp(buf_str(&out), p, n) == 0));
    for (size_t k = 0; k <= n && k < 64; k++) {
        size_t cut = utf8_cut(p, k), next = utf8_next(p, n, k);

        want(cut <= k && next >= k && next <= n);
        want(!valid || (utf8_valid(p, cut) && utf8_valid(p + next, n - next)));
    }
    buf_done(&out);
}

/* What decodes strictly is what its bytes encode to. */
static void
base64(const char *p, size_t n)
{
    struct buf raw = BUF_INIT(n), text = BUF_INIT(2 * n + 4);

    int r = base64_decode(&raw, p, n, false);
    want(r >= 0);
    if (r == 1) {
        want(base64_encode(&text, buf_str(&raw), raw.len) == 0);
        want(text.len == n && memcmp(buf_str(&text), p, n) == 0);
    }
    buf_clear(&raw);
    (void)base64_decode(&raw, p, n, true);
    buf_done(&raw);
    buf_done(&text);
}

/* A date that parses prints as it was. */
static void
dates(const char *p, size_t n)
{
    char text[64], again[CLOCK_HTTP_SIZE];
    int64_t ms;

    if (n >= sizeof text)
        return;
    memcpy(text, p, n);
    text[n] = '\0';
    if (clock_parse_http(text, &ms) == 1 && ms % 60000 != 59000) { /* :60 is read as :59 */
        clock_http(ms, again);
        want(strcmp(text, again) == 0);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    int64_t v;
    double d;

    utf8(p, size);
    base64(p, size);
    dates(p, size);
    want(!num_i64(p, size, -5, 5, &v) || (v >= -5 && v <= 5));
    want(!num_bytes(p, size, &v) || v >= 0);
    want(!num_duration_ms(p, size, &v) || v >= 0);
    want(!num_double(p, size, &d) || d - d == 0);
    return 0;
}
