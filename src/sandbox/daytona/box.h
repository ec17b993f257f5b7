/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_BOX_H
#define HUSK_SANDBOX_DAYTONA_BOX_H

#include "base/buf.h"
#include "json/json.h"
#include "model/session.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>

/* A sandbox as Daytona's API tells it. Pure: no I/O. */

#define BOX_KEY_MAX 63
#define BOX_URL_MAX 511

/* What its many states mean for us. */
enum box_state {
    BOX_STARTED,
    BOX_STOPPED, /* can be started, and has its files */
    BOX_MOVING,  /* wait and look again */
    BOX_BROKEN,  /* of no use any more, though it may be there and be paid for */
    BOX_ENDED    /* gone, or going */
};

struct box {
    char id[HANDLE_MAX + 1];
    char key[BOX_KEY_MAX + 1]; /* of the session, "" if none */
    char state_name[32];
    enum box_state state;
    char toolbox[BOX_URL_MAX + 1]; /* base of the toolboxes; "" if it was not told */
};

/* false: that is no sandbox. A key or URL that does not fit is as if it were not there. */
bool box_read(struct box *ret, json_val v);

/* The labels by which sandboxes are found, as a JSON object; key NULL: all of the deployment. */
void box_labels(struct buf *out, const char *deployment, const char *key);

/* Do the labels that a list's entry tells say so? One that tells none is what was asked for. */
bool box_is_of(json_val v, const char *deployment, const char *key);

/* The body of the call that makes one. */
void box_request(struct buf *out, const struct sandbox_options *o, const char *key);

#endif
