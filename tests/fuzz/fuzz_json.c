/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "json/writer.h"

#define DEPTH 16

/*
 * Whatever json_parse takes (leniently), jw_value writes such that json_parse takes it strictly,
 * and writing that again gives the same bytes.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* No byte becomes more than six; a lone surrogate's six become three. */
    struct buf first = BUF_INIT(64 + 8 * size), second = BUF_INIT(64 + 8 * size);
    struct json_doc *doc = NULL, *again = NULL;
    struct err err = ERR_INIT;
    struct json_writer w;

    if (json_parse((const char *)data, size, DEPTH, JSON_LAX, &doc, &err) < 0) {
        if (err.code == ERR_NONE)
            abort();
        if (json_parse((const char *)data, size, DEPTH, 0, &doc, NULL) == 0)
            abort(); /* strict must not take more than lax */
        return 0;
    }
    jw_init(&w, &first);
    jw_value(&w, NULL, json_root(doc));
    if (buf_check(&first, "first", NULL) < 0 ||
        json_parse(first.data, first.len, DEPTH, 0, &again, NULL) < 0)
        abort();
    jw_init(&w, &second);
    jw_value(&w, NULL, json_root(again));
    if (second.len != first.len || memcmp(first.data, second.data, first.len) != 0)
        abort();
    json_free(again);
    json_free(doc);
    buf_done(&first);
    buf_done(&second);
    return 0;
}
