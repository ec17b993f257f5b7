/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include "base/cleanup.h"
#include "http/conditional.h"

#include <stdlib.h>
#include <string.h>

/* One header value, given as each of the conditions in turn; the first byte picks the method and
 * whether there is a representation. */

struct one_header {
    const char *name, *value;
};

static const char *
header(void *ctx, const char *name)
{
    const struct one_header *h = ctx;

    return strcmp(name, h->name) == 0 ? h->value : NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"if-match", "if-none-match", "if-modified-since",
                                        "if-unmodified-since", "if-range"};
    static const struct http_carrier carrier = {.header = header};

    if (size == 0)
        return 0;
    _cleanup_free_ char *value = xstrndup((const char *)data + 1, size - 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct one_header h = {names[i], value};
        struct http_exchange x;
        http_exchange_init(&x, &carrier, &h);
        x.req.method = data[0] & 1 ? HTTP_GET : HTTP_PUT;
        bool exists = data[0] & 2;
        int rc = http_precondition(&x, exists, exists ? "\"a\"" : NULL, INT64_C(1606780800000));
        if (rc != 0 && rc != 304 && rc != 400 && rc != 412)
            abort();
        if (http_if_range(&x, "W/\"a\"", INT64_C(1606780800000)) && i == 4 && value[0] == '"')
            abort();
        http_exchange_done(&x);
    }
    return 0;
}
