/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "api/decode.h"

/* The bodies of all calls: the first byte picks the decoder. */

static const struct exec_limits limits = {
    .max_code_bytes = 4096, .exec_timeout_ms = 60000, .max_exec_timeout_ms = 600000};

/* A refusal has a slug and a sentence that names what is wrong. */
static void
check_refusal(int rc, const struct err *err)
{
    if (rc < 0 && (err->slug == NULL || err->msg[0] == '\0' ||
                   (err->code != ERR_INVALID && err->code != ERR_LIMIT)))
        abort();
}

static void
open_one(const char *p, size_t n)
{
    struct err err = ERR_INIT;
    struct open_body b;
    int rc = decode_open(p, n, &b, &err);

    check_refusal(rc, &err);
    if (rc == 0 && b.req.ttl_ms < 0)
        abort();
    if (rc == 0 && b.req.labels != NULL && strlen(b.req.labels) > LABELS_JSON_MAX)
        abort();
    open_body_done(&b);
}

static void
patch_one(const char *p, size_t n)
{
    struct err err = ERR_INIT;
    struct patch_body b;

    check_refusal(decode_patch(p, n, &b, &err), &err);
    patch_body_done(&b);
}

static void
exec_one(const char *p, size_t n)
{
    struct err err = ERR_INIT;
    struct exec_body b;
    int rc = decode_exec(p, n, &limits, &b, &err);

    check_refusal(rc, &err);
    if (rc == 0 && (b.req.timeout_ms < 1 || b.req.timeout_ms > limits.max_exec_timeout_ms ||
                    b.req.code_len > (size_t)limits.max_code_bytes))
        abort();
    exec_body_done(&b);
}

static void
once_one(const char *p, size_t n)
{
    const struct once_limits once = {limits, 1024};
    struct err err = ERR_INIT;
    struct once_body b;
    int rc = decode_once(p, n, &once, &b, &err);
    size_t total = 0;

    check_refusal(rc, &err);
    for (size_t i = 0; rc == 0 && i < b.req.n_inputs; i++) {
        if ((b.req.inputs[i].p == NULL) == (b.req.inputs[i].artifact == NULL))
            abort();
        total += b.req.inputs[i].n;
    }
    if (total > 1024 || b.capture.n_outputs > ONCE_OUTPUTS_MAX)
        abort();
    once_body_done(&b);
}

static void
key_one(const char *p, size_t n)
{
    struct err err = ERR_INIT;
    struct key_body b;
    int rc = decode_key(p, n, &b, &err);

    check_refusal(rc, &err);
    if (rc == 0 && (b.owner[0] == '\0' || b.scopes == 0))
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data + 1;
    struct err err = ERR_INIT;

    if (size == 0)
        return 0;
    switch ((uint8_t)(data[0] - '2') % 6) {
    case 0:
        open_one(p, size - 1);
        break;
    case 1:
        patch_one(p, size - 1);
        break;
    case 2:
        exec_one(p, size - 1);
        break;
    case 3:
        key_one(p, size - 1);
        break;
    case 5:
        once_one(p, size - 1);
        break;
    default:
        check_refusal(decode_empty(p, size - 1, &err), &err);
    }
    return 0;
}
