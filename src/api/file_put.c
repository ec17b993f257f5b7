/* SPDX-License-Identifier: MIT */
#include "api/files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/render.h"
#include "base/clock.h"
#include "json/writer.h"

#define UPLOAD_GRACE_MS 20000 /* before an upload's speed counts */
#define UPLOAD_BYTES_A_MS 1   /* what it must reach on the average from then on */

/* What the request says of the file it brings. */
struct put {
    int64_t length;
    bool has_digest, want_digest;
    uint8_t digest[SHA256_SIZE];
    enum upload_mode mode;
    bool match; /* If-Match named a state: it must hold at the end, too */
};

static int
read_put(struct api_call *c, struct put *p, struct err *err)
{
    const char *if_match = http_header(c->x, "if-match");
    const char *if_none_match = http_header(c->x, "if-none-match");
    int rc;

    memset(p, 0, sizeof(*p));
    p->length = c->x->req.content_length;
    if (p->length < 0)
        return err_slug(err, ERR_INVALID, "length_required",
                        "an upload needs a Content-Length, so that a cut one is noticed");
    if (p->length > c->api->o.max_file_bytes)
        return err_slug(err, ERR_LIMIT, "file_too_large",
                        "the file is %" PRId64 " bytes, the maximum is %" PRId64
                        " (SANDBOX_MAX_FILE_BYTES)",
                        p->length, c->api->o.max_file_bytes);
    /* RFC 9110 14.5: taken for a whole file it would destroy one. */
    if (http_header(c->x, "content-range") != NULL)
        return err_slug(err, ERR_INVALID, "bad_header", "Content-Range: a file is sent whole");
    rc = repr_digest_parse(http_header(c->x, "repr-digest"), p->digest);
    if (rc < 0)
        return err_slug(err, ERR_INVALID, "bad_header",
                        "the header Repr-Digest must be of the form sha-256=:base64:");
    p->has_digest = rc == 1;
    p->want_digest = repr_digest_wanted(http_header(c->x, "want-repr-digest"));
    p->mode = if_none_match != NULL && strspn(if_none_match, " *") == strlen(if_none_match)
                  ? UPLOAD_CREATE
                  : UPLOAD_REPLACE;
    p->match = if_match != NULL && strchr(if_match, '"') != NULL;
    return 0;
}

/* Until when more has to have come: an upload holds a worker of which there are few, and a handful
 * of clients that trickle must not hold them all. */
static struct deadline
patience(struct deadline budget, int64_t began_ms, int64_t received)
{
    struct deadline d = {began_ms + UPLOAD_GRACE_MS + received / UPLOAD_BYTES_A_MS};

    return deadline_min(budget, d);
}

static int
receive(struct api_call *c, struct file_upload *u, int64_t length, struct sha256 *hash,
        struct err *err)
{
    struct http_exchange *x = c->x;
    _cleanup_free_ char *buf = malloc(FILE_STEP);
    int64_t began_ms = clock_mono_ms(), received = 0;

    if (buf == NULL)
        return err_set(err, ERR_NOMEM, "no memory for an upload");
    while (length > 0) {
        size_t step = length < FILE_STEP ? (size_t)length : FILE_STEP;
        int64_t got;

        api_renew(c);
        struct deadline until = patience(x->budget, began_ms, received);
        got = x->carrier->read(x->carrier_ctx, buf, step, until);
        if (got <= 0)
            return err_slug(
                err, ERR_ABORTED, "body_incomplete",
                "the upload %s %" PRId64 " bytes before its Content-Length; nothing was changed",
                deadline_passed(until) ? "came too slowly and was given up" : "ended", length);
        if (hash != NULL)
            sha256_add(hash, buf, (size_t)got);
        if (manager_upload_write(u, buf, (size_t)got, err) < 0)
            return -1;
        length -= got;
        received += got;
    }
    return 0;
}

/* Takes the body into an upload that nobody sees yet; the digest is checked and left in p. */
static int
take_body(struct api_call *c, struct file_upload *u, struct put *p, struct err *err)
{
    bool hashed = p->has_digest || p->want_digest;
    struct sha256 *hash = hashed ? sha256_new() : NULL;
    uint8_t digest[SHA256_SIZE];

    if (receive(c, u, p->length, hash, err) < 0) {
        sha256_free(hash);
        return -1;
    }
    if (!hashed)
        return 0;
    sha256_finish(hash, digest);
    if (p->has_digest && !digest_equal(digest, p->digest, sizeof(digest)))
        return err_slug(err, ERR_INVALID, "digest_mismatch",
                        "the bytes received do not have the sha-256 that Repr-Digest names; "
                        "nothing was changed");
    memcpy(p->digest, digest, sizeof(digest));
    return 0;
}

static int
put_file(struct api_call *c, struct file_call *f, struct put *p, bool *ret_created,
         struct file_info *ret, struct err *err)
{
    struct file_info before;
    struct err no = ERR_INIT;
    char etag[FILE_ETAG_SIZE] = "";
    struct manager *m = c->api->o.manager;
    struct file_upload *u;
    bool exists = manager_file_stat(m, &f->lease, f->path, f->n, &before, &no) == 0;

    if (!exists && no.code != ERR_NOT_FOUND) {
        *err = no;
        return -1;
    }
    if (exists)
        file_etag(&before, clock_wall_ms(), etag);
    if (file_precondition(c, exists, &before, etag, err) < 0 ||
        manager_upload_begin(m, &f->lease, f->path, f->n, &u, err) < 0)
        return -1;
    if (take_body(c, u, p, err) < 0) {
        manager_upload_abort(u);
        return -1;
    }
    return manager_upload_commit(u, p->mode, p->match ? &before : NULL, ret_created, ret, err);
}

static void
send_made(struct api_call *c, const struct file_call *f, const struct put *p, bool created,
          const struct file_info *info)
{
    _cleanup_buf_ struct buf body = BUF_INIT(16384);
    int64_t now = clock_wall_ms();
    char etag[FILE_ETAG_SIZE];
    struct json_writer w;

    file_etag(info, now, etag);
    http_add_header(c->x, "ETag", "%s", etag);
    if (p->has_digest || p->want_digest)
        repr_digest_header(c->x, p->digest);
    if (created)
        http_add_header(c->x, "Location", "%s", c->x->req.path);
    jw_init(&w, &body);
    render_file(&w, NULL, f->path, f->n, info, now);
    api_send_json(c, created ? 201 : 200, &body);
}

void
handle_file_put(struct api_call *c)
{
    struct file_info info;
    struct err err = ERR_INIT;
    struct file_call f;
    struct put p;
    bool created = false;
    int rc;

    if (read_put(c, &p, &err) < 0 || file_call_begin(c, &f, &err) < 0) {
        http_drain(c->x, API_DRAIN_MAX);
        api_problem(c, &err);
        return;
    }
    rc = put_file(c, &f, &p, &created, &info, &err);
    file_call_end(c, &f, rc == 0);
    if (rc < 0) {
        http_drain(c->x, API_DRAIN_MAX);
        api_problem(c, &err);
        return;
    }
    send_made(c, &f, &p, created, &info);
}
