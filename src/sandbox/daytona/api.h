/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_API_H
#define HUSK_SANDBOX_DAYTONA_API_H

#include "json/json.h"
#include "sandbox/daytona/daytona.h"

/*
 * Daytona's REST API of sandboxes.  Each call is bounded by the options' http_timeout_ms and by d.
 * Errors: ERR_UNAVAILABLE "gateway_unavailable" (not reached, 5xx, 429: worth another try) and
 * "gateway_error" (it answered with what is none of its answers, refused the key, redirected),
 * ERR_NOT_FOUND (404), ERR_UNCERTAIN (a call that is not idempotent may have arrived).
 */

/* What a status means: 0 for the 2xx, else -1; what and who are words for the message. */
int api_judge(const struct rest_reply *r, const char *who, const char *what, struct err *err);
/* A call that got no answer, in these terms. */
int api_unreached(const char *who, const char *what, const struct err *why, struct err *err);
/* The answer's JSON; *ret is the caller's. */
int api_parse(const struct rest_reply *r, const char *what, struct json_doc **ret, struct err *err);

int api_get(struct daytona *dt, const char *id, struct box *ret, struct deadline d,
            struct err *err);
/* Makes one. ERR_UNCERTAIN: there may be one now that nobody knows but by its labels. */
int api_create(struct daytona *dt, const char *key, struct box *ret, struct deadline d,
               struct err *err);
/* Those with this key (NULL: all of the deployment), ended ones left out, until cb says no. */
typedef int (*api_box_cb)(void *ctx, const struct box *b); /* non-zero stops */
int api_each(struct daytona *dt, const char *key, api_box_cb cb, void *ctx, struct deadline d,
             struct err *err);
/* Begin to start or stop; one that is on its way there, or gone, is no error. */
int api_start(struct daytona *dt, const char *id, struct deadline d, struct err *err);
int api_stop(struct daytona *dt, const char *id, struct deadline d, struct err *err);
/* 0: it is ended, or was; else ERR_UNCERTAIN. */
int api_delete(struct daytona *dt, const char *id, struct deadline d, struct err *err);
/* The base of its toolbox, remembered from then on. */
int api_toolbox_url(struct daytona *dt, const char *id, char ret[BOX_URL_MAX + 1],
                    struct deadline d, struct err *err);
int api_ping(struct daytona *dt, struct deadline d, struct err *err);

#endif
