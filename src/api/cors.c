/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <string.h>

#include "base/cleanup.h"

#define CORS_MAX_AGE_S 600

static const char exposed[] =
    "X-Request-Id, ETag, Content-Range, Accept-Ranges, Content-Disposition, Location, "
    "Repr-Digest, Retry-After, Idempotent-Replayed, WWW-Authenticate";
static const char allowed_headers[] =
    "Authorization, Content-Type, Accept, Idempotency-Key, If-Match, If-None-Match, If-Range, "
    "If-Modified-Since, If-Unmodified-Since, Range, Last-Event-ID, Repr-Digest, "
    "Want-Repr-Digest, X-Request-Id";

/* scheme://host[:port], nothing behind it: what a browser sends as Origin (RFC 6454 6.2). */
static bool
is_origin(const char *s, size_t n)
{
    const char *at = memmem(s, n, "://", 3);

    if (at == NULL || at == s || at + 3 == s + n)
        return false;
    for (const char *p = s; p < s + n; p++)
        if ((unsigned char)*p <= 0x20 || *p == 0x7f || (p >= at + 3 && strchr("/?#@\"", *p)))
            return false;
    return true;
}

int
cors_init(struct api *a, const char *origins, struct err *err)
{
    const char *p = origins != NULL ? origins : "";

    for (p += strspn(p, ", \t"); *p != '\0'; p += strspn(p, ", \t")) {
        size_t n = strcspn(p, ", \t");

        if (n == 1 && *p == '*')
            a->any_origin = true;
        else if (!is_origin(p, n))
            return err_set(err, ERR_INVALID,
                           "SANDBOX_CORS_ORIGINS: \"%.*s\" is no origin (scheme://host[:port])",
                           (int)(n < 100 ? n : 100), p);
        else if (a->n_origins == CORS_ORIGINS_MAX)
            return err_set(err, ERR_LIMIT, "SANDBOX_CORS_ORIGINS: more than %d origins",
                           CORS_ORIGINS_MAX);
        else
            a->origins[a->n_origins++] = xstrndup(p, n);
        p += n;
    }
    return 0;
}

void
cors_done(struct api *a)
{
    for (int i = 0; i < a->n_origins; i++)
        free(a->origins[i]);
    a->n_origins = 0;
}

/* The origin this answer is open to: the request's, "*", or NULL. */
static const char *
cors_allowed(const struct api_call *c)
{
    const char *origin = http_header(c->x, "origin");

    if (origin == NULL)
        return NULL;
    for (int i = 0; i < c->api->n_origins; i++)
        if (strcmp(c->api->origins[i], origin) == 0)
            return c->api->origins[i];
    return c->api->any_origin ? "*" : NULL;
}

void
cors_headers(struct api_call *c)
{
    const char *origin = cors_allowed(c);

    /* Also where there is no Origin: a cache must not give that answer to a page that has one. */
    if (c->api->n_origins > 0)
        http_add_header(c->x, "Vary", "Origin");
    if (origin == NULL)
        return;
    http_add_header(c->x, "Access-Control-Allow-Origin", "%s", origin);
    http_add_header(c->x, "Access-Control-Expose-Headers", "%s", exposed);
}

bool
cors_preflight(struct api_call *c, const char *allow)
{
    if (cors_allowed(c) == NULL || http_header(c->x, "access-control-request-method") == NULL)
        return false;
    http_add_header(c->x, "Access-Control-Allow-Methods", "%s", allow);
    http_add_header(c->x, "Access-Control-Allow-Headers", "%s", allowed_headers);
    http_add_header(c->x, "Access-Control-Max-Age", "%d", CORS_MAX_AGE_S);
    api_send_empty(c, 204);
    return true;
}
