/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <string.h>
#include <strings.h>

/* "application/json" with any parameters; merge-patch is the same JSON to us. */
static bool
is_json(const char *type)
{
    static const char *const known[] = {"application/json", "application/merge-patch+json"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t n = strlen(known[i]);

        if (strncasecmp(type, known[i], n) == 0 && strchr(" \t;", type[n]) != NULL)
            return true;
    }
    return false;
}

int
api_read_json(struct api_call *c, size_t max, struct buf *ret, struct err *err)
{
    const char *type = http_header(c->x, "content-type");
    int64_t length = c->x->req.content_length;

    if (length == 0 || (length < 0 && type == NULL))
        return 0;
    if (type == NULL || !is_json(type))
        return err_slug(err, ERR_INVALID, "unsupported_media_type",
                        "the body must be application/json");
    return http_read_body(c->x, max, ret, err);
}
