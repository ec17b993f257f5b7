/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include "base/cleanup.h"
#include "http/range.h"

#include <stdlib.h>

/* A Range header; the first two bytes are the file's size. Whatever comes out lies within the file,
 * in order and apart. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_range r[HTTP_RANGES_MAX];

    if (size < 2)
        return 0;
    int64_t length = data[0] << 8 | data[1];
    _cleanup_free_ char *header = xstrndup((const char *)data + 2, size - 2);
    int n = http_ranges(header, length, r);
    if (n < -1 || n > HTTP_RANGES_MAX)
        abort();
    for (int i = 0; i < n; i++) {
        if (r[i].first < 0 || r[i].first > r[i].last || r[i].last >= length)
            abort();
        if (i > 0 && r[i].first <= r[i - 1].last + 1)
            abort();
    }
    return 0;
}
