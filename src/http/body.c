/* SPDX-License-Identifier: MIT */
#include "http/http.h"

#include <inttypes.h>

#define READ_STEP 16384

/* A read within the time that may pass without a byte. */
static int64_t
read_some(struct http_exchange *x, void *p, size_t n)
{
    int64_t got = x->carrier->read(x->carrier_ctx, p, n, deadline_in(HTTP_STALL_MS));

    if (got > 0)
        http_renew_budget(x);
    return got;
}

int
http_read_body(struct http_exchange *x, size_t max, struct buf *ret, struct err *err)
{
    int64_t length = x->req.content_length;

    if (length < 0)
        return err_slug(err, ERR_INVALID, "length_required",
                        "The request needs a body with a Content-Length.");
    if ((uint64_t)length > max)
        return err_slug(err, ERR_LIMIT, "body_too_large",
                        "The body has %" PRId64 " bytes; this call takes at most %zu.", length,
                        max);
    while (length > 0) {
        size_t step = length < READ_STEP ? (size_t)length : READ_STEP;
        char *at = buf_reserve(ret, step);
        if (!at)
            return err_slug(err, ERR_LIMIT, "body_too_large",
                            "The body has more bytes than can be taken (%zu).", ret->max);
        int64_t got = read_some(x, at, step);
        if (got <= 0)
            return err_slug(err, ERR_ABORTED, "body_incomplete",
                            "The body ended %" PRId64 " bytes before its Content-Length.", length);
        buf_added(ret, (size_t)got);
        length -= got;
    }
    return 0;
}

void
http_drain(struct http_exchange *x, int64_t max)
{
    char trash[4096];

    while (max > 0 && !x->broken) {
        size_t step = max < (int64_t)sizeof(trash) ? (size_t)max : sizeof(trash);
        int64_t got = read_some(x, trash, step);
        if (got <= 0)
            return;
        max -= got;
    }
}
