/* SPDX-License-Identifier: MIT */
#include "fuzz/result.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/utf8.h"
#include "json/json.h"
#include "sandbox/output/failure.h"
#include "sandbox/output/text.h"

#define DEPTH_MAX 70 /* deeper than any backend reads its messages */

void
must(bool ok)
{
    if (!ok)
        abort();
}

void
must_be_json(const char *p, size_t n)
{
    struct json_doc *doc = NULL;
    struct err err = ERR_INIT;

    must(json_parse(p, n, DEPTH_MAX, 0, &doc, &err) == 0);
    must(json_type(json_root(doc)) == JSON_OBJECT);
    json_free(doc);
}

static size_t
check_bundles(const struct bundle *b, size_t n)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++) {
        must_be_json(b[i].data, b[i].data_len);
        must_be_json(b[i].metadata, b[i].metadata_len);
        size += b[i].data_len + b[i].metadata_len;
    }
    return size;
}

static size_t
check_plots(const struct execution_result *r)
{
    size_t size = 0;

    for (size_t i = 0; i < r->n_plots; i++) {
        const struct plot *p = &r->plots[i];
        struct buf raw = BUF_INIT(p->content_len);

        must(p->index < (p->of_display ? r->n_displays : r->n_results));
        must(base64_decode(&raw, p->content_base64, p->content_len, false) == 1);
        buf_done(&raw);
        size += p->content_len;
    }
    return size;
}

static void
check_error(const struct execution_result *r)
{
    must(!r->error_name == !r->error_value);
    if (!r->error_name)
        return;
    must(strlen(r->error_name) <= FAILURE_NAME_MAX && strlen(r->error_value) <= FAILURE_VALUE_MAX);
    must(utf8_valid(r->error_name, strlen(r->error_name)));
    must(utf8_valid(r->error_value, strlen(r->error_value)));
    must(r->n_traceback <= FAILURE_FRAMES_MAX);
    for (size_t i = 0; i < r->n_traceback; i++) {
        size_t n = strlen(r->traceback[i]);

        must(n <= FAILURE_FRAME_MAX && utf8_valid(r->traceback[i], n));
    }
}

void
result_check(const struct execution_result *r, size_t max)
{
    must(r->out && r->err);
    must(r->out_len <= max + TEXT_MARKER_MAX && utf8_valid(r->out, r->out_len));
    must(r->err_len <= max + TEXT_MARKER_MAX && utf8_valid(r->err, r->err_len));
    must(check_bundles(r->results, r->n_results) + check_bundles(r->displays, r->n_displays) +
             check_plots(r) <=
         max);
    must(r->bytes_rich >= 0 && r->execution_count >= -1);
    check_error(r);
}
