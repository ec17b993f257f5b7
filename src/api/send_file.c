/* SPDX-License-Identifier: MIT */
#include "api/send_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "http/conditional.h"
#include "http/disposition.h"
#include "http/range.h"

#define BOUNDARY_BYTES 16
#define PART_HEAD_MAX 512

/* Up to n bytes at an offset, over EINTR; 0 the end, -1 with errno. */
static ssize_t
read_at(int fd, char *p, size_t n, int64_t at)
{
    ssize_t got;

    do
        got = pread(fd, p, n, at);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Sends n bytes from an offset. A file that has become shorter cannot be sent as it was promised:
 * the connection is broken so that nobody takes the part for the whole. */
static int
send_part(struct api_call *c, struct out_file *f, int64_t at, int64_t n)
{
    while (n > 0) {
        size_t step = n < FILE_STEP ? (size_t)n : FILE_STEP;
        ssize_t got = read_at(f->fd, f->buf, step, at);

        if (got <= 0) {
            log_warning("a file became shorter or unreadable while it was sent");
            c->x->carrier->break_off(c->x->carrier_ctx);
            c->x->broken = true;
            return -1;
        }
        api_renew(c);
        if (http_write(c->x, f->buf, (size_t)got) < 0)
            return -1;
        at += got;
        n -= got;
    }
    return 0;
}

/* The digest of the whole file as it is now; false if it changed meanwhile. */
static bool
digest_of(struct api_call *c, struct out_file *f, uint8_t ret[SHA256_SIZE])
{
    struct sha256 *hash = sha256_new();
    int64_t at = 0;

    while (at < f->info.size) {
        int64_t left = f->info.size - at;
        ssize_t got = read_at(f->fd, f->buf, left < FILE_STEP ? (size_t)left : FILE_STEP, at);

        if (got <= 0) {
            sha256_free(hash);
            return false;
        }
        sha256_add(hash, f->buf, (size_t)got);
        at += got;
        api_renew(c);
        if (c->watch.gone(c->watch.ctx)) {
            sha256_free(hash);
            return false;
        }
    }
    sha256_finish(hash, ret);
    return true;
}

/* The headers of every answer about the file, 304 and 206 included. */
static void
file_headers(struct api_call *c, struct out_file *f)
{
    _cleanup_buf_ struct buf disposition = BUF_INIT(8192);
    char date[CLOCK_HTTP_SIZE];

    clock_http(f->info.mtime_ns / 1000000, date);
    http_add_header(c->x, "ETag", "%s", f->etag);
    http_add_header(c->x, "Last-Modified", "%s", date);
    http_add_header(c->x, "Accept-Ranges", "bytes");
    if (http_disposition(&disposition, f->name, f->name_len) == 0)
        http_add_header(c->x, "Content-Disposition", "%s", disposition.data);
    /* What a session wrote must never run as a page of this origin. */
    http_add_header(c->x, "Content-Security-Policy", "sandbox; default-src 'none'");
    http_add_header(c->x, "Cross-Origin-Resource-Policy", "same-site");
    api_head(c, "private, no-cache");
}

static void
part_head(struct buf *out, const struct out_file *f, const char *boundary,
          const struct http_range *r)
{
    buf_clear(out);
    (void)buf_printf(out,
                     "\r\n--%s\r\nContent-Type: %s\r\nContent-Range: bytes %" PRId64 "-%" PRId64
                     "/%" PRId64 "\r\n\r\n",
                     boundary, f->type, r->first, r->last, f->info.size);
}

static void
send_many(struct api_call *c, struct out_file *f, const struct http_range *r, int n)
{
    _cleanup_buf_ struct buf head = BUF_INIT(PART_HEAD_MAX);
    char boundary[2 * BOUNDARY_BYTES + 1], type[80], end[64];
    int64_t length;

    id_random_hex(boundary, BOUNDARY_BYTES);
    (void)snprintf(type, sizeof(type), "multipart/byteranges; boundary=%s", boundary);
    (void)snprintf(end, sizeof(end), "\r\n--%s--\r\n", boundary);
    length = (int64_t)strlen(end);
    for (int i = 0; i < n; i++) {
        part_head(&head, f, boundary, &r[i]);
        length += (int64_t)head.len + r[i].last - r[i].first + 1;
    }
    if (http_begin(c->x, 206, type, length) < 0 || c->x->req.method == HTTP_HEAD)
        return;
    for (int i = 0; i < n; i++) {
        part_head(&head, f, boundary, &r[i]);
        if (http_write(c->x, head.data, head.len) < 0 ||
            send_part(c, f, r[i].first, r[i].last - r[i].first + 1) < 0)
            return;
    }
    (void)http_write(c->x, end, strlen(end));
}

static void
send_one(struct api_call *c, struct out_file *f, int status, int64_t at, int64_t n)
{
    if (http_begin(c->x, status, f->type, n) == 0 && c->x->req.method != HTTP_HEAD)
        (void)send_part(c, f, at, n);
}

static void
send_unsatisfiable(struct api_call *c, const struct out_file *f)
{
    struct err err = ERR_INIT;

    c->extra_name = "Content-Range";
    (void)snprintf(c->extra_value, sizeof(c->extra_value), "bytes */%" PRId64, f->info.size);
    (void)err_slug(&err, ERR_INVALID, "range_not_satisfiable", "the file has %" PRId64 " bytes",
                   f->info.size);
    api_problem(c, &err);
}

static void
send_file(struct api_call *c, struct out_file *f)
{
    const char *range = http_header(c->x, "range");
    struct http_range r[HTTP_RANGES_MAX];
    uint8_t digest[SHA256_SIZE];
    int n = 0;

    /* A range of a HEAD is none (RFC 9110 14.2). */
    if (range != NULL && c->x->req.method == HTTP_GET &&
        http_if_range(c->x, f->etag, f->info.mtime_ns / 1000000))
        n = http_ranges(range, f->info.size, r);
    if (n < 0) {
        send_unsatisfiable(c, f);
        return;
    }
    if (f->has_digest)
        repr_digest_header(c->x, f->digest);
    else if (repr_digest_wanted(http_header(c->x, "want-repr-digest")) && digest_of(c, f, digest))
        repr_digest_header(c->x, digest);
    api_renew(c);
    file_headers(c, f);
    if (n == 0) {
        send_one(c, f, 200, 0, f->info.size);
    } else if (n == 1) {
        http_add_header(c->x, "Content-Range", "bytes %" PRId64 "-%" PRId64 "/%" PRId64, r[0].first,
                        r[0].last, f->info.size);
        send_one(c, f, 206, r[0].first, r[0].last - r[0].first + 1);
    } else {
        send_many(c, f, r, n);
    }
}

int
send_out_file(struct api_call *c, struct out_file *f, struct err *err)
{
    int rc = file_precondition(c, true, &f->info, f->etag, err);

    if (rc < 0)
        return -1;
    if (rc == 304) {
        file_headers(c, f);
        (void)http_send_empty(c->x, 304);
        return 0;
    }
    f->buf = malloc(FILE_STEP);
    if (f->buf == NULL)
        return err_set(err, ERR_NOMEM, "no memory to send a file");
    send_file(c, f);
    free(f->buf);
    f->buf = NULL;
    return 1;
}
