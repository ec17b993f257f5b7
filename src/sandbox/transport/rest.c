/* SPDX-License-Identifier: MIT */
#include "sandbox/transport/rest.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "base/cleanup.h"
#include "base/fd.h"

/*
 * curl's multi interface carries the single easy handle, so that a call can be moved along while
 * the caller watches other descriptors.  Every call sets every option: curl_easy_reset() keeps
 * connections, and nothing else of the call before may linger.
 */

#define CONNECT_TIMEOUT_MS 5000
/* Under the keep-alive of the servers in question. */
#define CONNECTION_AGE_S 60L
#define REQUEST_BODY_MAX (64u * 1024 * 1024) /* grows as needed; code travels escaped */

struct rest {
    CURLM *multi;
    CURL *easy;
    char *base;
    char *auth_header; /* or NULL */
    char *header;      /* or NULL */
    char *ca_file;     /* or NULL */
    struct buf url;
    struct buf request;
    struct buf answer;
    struct curl_slist *headers;
    const char *method; /* a literal of ours */
    char error[CURL_ERROR_SIZE];
    struct rest_file *file; /* of the call under way, or NULL */
    int64_t sent;           /* of its body */
    int file_errno;
    struct deadline deadline;
    bool busy;
    bool has_body;
    bool retried;
    bool too_large;
};

static void
global_init(void)
{
    static bool done;

    if (!done)
        (void)curl_global_init(CURL_GLOBAL_ALL);
    done = true;
}

/* A piece of the file that comes. */
static size_t
take_bytes(struct rest *r, const char *p, size_t n)
{
    struct rest_file *f = r->file;

    if ((int64_t)n > f->max_bytes - f->got) {
        r->too_large = true;
        return 0;
    }
    if (fd_write_all(f->out_fd, p, n) < 0) {
        r->file_errno = errno;
        return 0;
    }
    f->got += (int64_t)n;
    return n;
}

/* The next bytes of head, file and tail. */
static size_t
on_read(char *p, size_t size, size_t n, void *ctx)
{
    struct rest *r = ctx;
    const struct rest_file *f = r->file;
    int64_t head = (int64_t)strlen(f->head), end = head + f->size;
    int64_t from = r->sent < head ? 0 : r->sent < end ? head : end;
    int64_t to = r->sent < head ? head : r->sent < end ? end : end + (int64_t)strlen(f->tail);
    size_t k = size * n;

    if ((int64_t)k > to - r->sent)
        k = (size_t)(to - r->sent);
    if (from == head && to == end) {
        if (k > 0 && fd_pread_all(f->fd, p, k, r->sent - head) < 0) {
            r->file_errno = errno;
            return CURL_READFUNC_ABORT;
        }
    } else {
        memcpy(p, (from == 0 && to == head ? f->head : f->tail) + (r->sent - from), k);
    }
    r->sent += (int64_t)k;
    return k;
}

/* A kept connection turned out to be dead before anything was answered: from the beginning. */
static int
on_seek(void *ctx, curl_off_t offset, int origin)
{
    struct rest *r = ctx;

    if (origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    r->sent = offset;
    return CURL_SEEKFUNC_OK;
}

static size_t
on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct rest *r = ctx;
    long status = 0;

    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (r->file != NULL && r->file->out_fd >= 0 && status == 200)
        return take_bytes(r, p, size * n);
    if (buf_append(&r->answer, p, size * n) < 0) {
        r->too_large = true;
        return 0;
    }
    return size * n;
}

int
rest_set_base(struct rest *r, const char *base_url, struct err *err)
{
    if (base_url == NULL ||
        (strncasecmp(base_url, "http://", 7) != 0 && strncasecmp(base_url, "https://", 8) != 0))
        return err_set(err, ERR_INVALID, "the gateway's URL must begin with http:// or https://");
    free(r->base);
    r->base = xstrdup(base_url);
    for (size_t n = strlen(r->base); n > 0 && r->base[n - 1] == '/'; n--)
        r->base[n - 1] = '\0';
    return 0;
}

int
rest_new(const struct rest_options *o, struct rest **ret, struct err *err)
{
    struct rest *r;

    global_init();
    r = xcalloc(1, sizeof *r);
    if (rest_set_base(r, o->base_url, err) < 0) {
        free(r);
        return -1;
    }
    buf_init(&r->url, 8192);
    buf_init(&r->request, REQUEST_BODY_MAX);
    buf_init(&r->answer, o->max_body);
    if (o->ca_file != NULL && o->ca_file[0] != '\0')
        r->ca_file = xstrdup(o->ca_file);
    if (o->authorization != NULL) {
        size_t len = strlen(o->authorization) + sizeof "Authorization: ";
        r->auth_header = xcalloc(1, len);
        (void)snprintf(r->auth_header, len, "Authorization: %s", o->authorization);
    }
    if (o->header != NULL)
        r->header = xstrdup(o->header);
    r->multi = curl_multi_init();
    r->easy = curl_easy_init();
    if (r->multi == NULL || r->easy == NULL) {
        rest_free(r);
        return err_set(err, ERR_NOMEM, "no memory for an HTTP client");
    }
    *ret = r;
    return 0;
}

void
rest_free(struct rest *r)
{
    if (r == NULL)
        return;
    rest_cancel(r);
    curl_easy_cleanup(r->easy);
    if (r->multi != NULL)
        (void)curl_multi_cleanup(r->multi);
    curl_slist_free_all(r->headers);
    buf_done(&r->url);
    buf_done(&r->request);
    buf_done(&r->answer);
    free(r->base);
    free(r->auth_header);
    free(r->header);
    free(r->ca_file);
    free(r);
}

static int
add_header(struct rest *r, const char *line)
{
    struct curl_slist *longer = curl_slist_append(r->headers, line);

    if (longer == NULL)
        return -1;
    r->headers = longer;
    return 0;
}

static int
set_headers(struct rest *r)
{
    curl_slist_free_all(r->headers);
    r->headers = NULL;
    if (add_header(r, "Accept: application/json") < 0 || add_header(r, "Expect:") < 0)
        return -1;
    if (r->has_body && add_header(r, "Content-Type: application/json") < 0)
        return -1;
    if (r->file != NULL && r->file->content_type != NULL) {
        char line[200];

        (void)snprintf(line, sizeof line, "Content-Type: %s", r->file->content_type);
        if (add_header(r, line) < 0)
            return -1;
    }
    if (r->header != NULL && add_header(r, r->header) < 0)
        return -1;
    return r->auth_header != NULL ? add_header(r, r->auth_header) : 0;
}

/* Method and body of the call. */
static CURLcode
set_method(struct rest *r)
{
    const struct rest_file *f = r->file;
    CURLcode rc = CURLE_OK;

    if (f != NULL && f->content_type != NULL) {
        int64_t all = (int64_t)strlen(f->head) + f->size + (int64_t)strlen(f->tail);

        rc = curl_easy_setopt(r->easy, CURLOPT_POST, 1L);
        if (rc == CURLE_OK)
            rc = curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)all);
        if (rc == CURLE_OK)
            rc = curl_easy_setopt(r->easy, CURLOPT_READFUNCTION, on_read);
        if (rc == CURLE_OK)
            rc = curl_easy_setopt(r->easy, CURLOPT_READDATA, r);
        if (rc == CURLE_OK)
            rc = curl_easy_setopt(r->easy, CURLOPT_SEEKFUNCTION, on_seek);
        if (rc == CURLE_OK)
            rc = curl_easy_setopt(r->easy, CURLOPT_SEEKDATA, r);
        return rc;
    }
    if (strcmp(r->method, "GET") == 0)
        return curl_easy_setopt(r->easy, CURLOPT_HTTPGET, 1L);
    if (r->has_body || strcmp(r->method, "POST") == 0) {
        rc = curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->request.len);
        if (rc == CURLE_OK)
            rc = curl_easy_setopt(r->easy, CURLOPT_POSTFIELDS, buf_str(&r->request));
    }
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(r->easy, CURLOPT_CUSTOMREQUEST, r->method);
    return rc;
}

static CURLcode
set_options(struct rest *r)
{
    int64_t left = deadline_left_ms(r->deadline);
    long total = left < 1 ? 1 : left > 3600000 ? 3600000L : (long)left;
    long connect = total < CONNECT_TIMEOUT_MS ? total : CONNECT_TIMEOUT_MS;
    CURL *c = r->easy;
    CURLcode rc;

#define SET(option, value)                                                                         \
    do {                                                                                           \
        rc = curl_easy_setopt(c, option, value);                                                   \
        if (rc != CURLE_OK)                                                                        \
            return rc;                                                                             \
    } while (0)

    curl_easy_reset(c);
    SET(CURLOPT_URL, buf_str(&r->url));
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_CONNECTTIMEOUT_MS, connect);
    SET(CURLOPT_TIMEOUT_MS, total);
    SET(CURLOPT_MAXAGE_CONN, CONNECTION_AGE_S);
    SET(CURLOPT_ERRORBUFFER, r->error);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, r);
    SET(CURLOPT_HTTPHEADER, r->headers);
    SET(CURLOPT_USERAGENT, "husk");
    if (r->file != NULL) {
        SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
        SET(CURLOPT_LOW_SPEED_TIME, (long)REST_STALL_S);
        SET(CURLOPT_UPLOAD_BUFFERSIZE, (long)REST_PIECE);
        SET(CURLOPT_BUFFERSIZE, (long)REST_PIECE);
    }
    if (r->ca_file != NULL)
        SET(CURLOPT_CAINFO, r->ca_file);
#undef SET
    return set_method(r);
}

static int
launch(struct rest *r, struct err *err)
{
    CURLcode rc;

    buf_clear(&r->answer);
    r->too_large = false;
    r->sent = 0;
    r->file_errno = 0;
    r->error[0] = '\0';
    if (set_headers(r) < 0)
        return err_set(err, ERR_NOMEM, "no memory for an HTTP request");
    rc = set_options(r);
    if (rc != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "an HTTP option was refused: %s", curl_easy_strerror(rc));
    if (curl_multi_add_handle(r->multi, r->easy) != CURLM_OK)
        return err_set(err, ERR_INTERNAL, "the HTTP request could not be begun");
    r->busy = true;
    return 0;
}

static const char *
method_literal(const char *method)
{
    static const char *const known[] = {"GET", "POST", "DELETE", "PUT", "PATCH"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], method) == 0)
            return known[i];
    return NULL;
}

static int
begin(struct rest *r, const char *method, const char *path, const char *body,
      struct rest_file *file, struct deadline d, struct err *err)
{
    rest_cancel(r);
    r->file = file;
    r->method = method_literal(method);
    if (r->method == NULL)
        return err_set(err, ERR_INTERNAL, "no such HTTP method");
    buf_clear(&r->url);
    buf_clear(&r->request);
    (void)buf_puts(&r->url, r->base);
    (void)buf_puts(&r->url, path);
    r->has_body = body != NULL;
    if (body != NULL)
        (void)buf_puts(&r->request, body);
    if (buf_check(&r->url, "the URL of a gateway call", err) < 0 ||
        buf_check(&r->request, "the body of a gateway call", err) < 0)
        return -1;
    r->deadline = d;
    r->retried = false;
    return launch(r, err);
}

int
rest_begin(struct rest *r, const char *method, const char *path, const char *body,
           struct deadline d, struct err *err)
{
    return begin(r, method, path, body, NULL, d, err);
}

void
rest_cancel(struct rest *r)
{
    if (!r->busy)
        return;
    (void)curl_multi_remove_handle(r->multi, r->easy);
    r->busy = false;
}

static bool
is_json_type(const char *type)
{
    size_t n = strlen("application/json");

    return type != NULL && strncasecmp(type, "application/json", n) == 0 &&
           (type[n] == '\0' || type[n] == ';' || isspace((unsigned char)type[n]));
}

/* What curl's verdict means for whoever made the call. */
static int
failure(struct rest *r, CURLcode rc, struct err *err)
{
    const char *why = r->error[0] != '\0' ? r->error : curl_easy_strerror(rc);
    long sent = 0;

    (void)curl_easy_getinfo(r->easy, CURLINFO_REQUEST_SIZE, &sent);
    if (r->file_errno != 0)
        return err_sys(err, ERR_INTERNAL, r->file_errno, "a staged file");
    if (r->too_large)
        return err_set(err, ERR_LIMIT, "an answer was larger than %lld bytes",
                       r->file != NULL && r->file->out_fd >= 0 ? (long long)r->file->max_bytes
                                                               : (long long)r->answer.max);
    if (sent == 0)
        return err_set(err, ERR_UNAVAILABLE, "%s", why);
    return err_set(err, rc == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_UNCERTAIN, "%s", why);
}

/* A kept connection that the other end has closed meanwhile says nothing about the call. */
static bool
worth_another(struct rest *r, CURLcode rc)
{
    long fresh = 1;

    if (r->retried || r->file != NULL || strcmp(r->method, "POST") == 0 ||
        deadline_passed(r->deadline))
        return false;
    if (rc != CURLE_SEND_ERROR && rc != CURLE_RECV_ERROR && rc != CURLE_GOT_NOTHING)
        return false;
    (void)curl_easy_getinfo(r->easy, CURLINFO_NUM_CONNECTS, &fresh);
    return fresh == 0;
}

static int
finished(struct rest *r, CURLcode rc, struct rest_reply *ret, struct err *err)
{
    char *type = NULL;
    long status = 0;

    rest_cancel(r);
    if (rc != CURLE_OK && worth_another(r, rc)) {
        r->retried = true;
        return launch(r, err);
    }
    if (rc != CURLE_OK)
        return failure(r, rc, err);
    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(r->easy, CURLINFO_CONTENT_TYPE, &type);
    ret->status = (int)status;
    ret->is_json = is_json_type(type);
    ret->body = buf_str(&r->answer);
    ret->body_len = r->answer.len;
    return 1;
}

int
rest_step(struct rest *r, struct rest_reply *ret, struct err *err)
{
    CURLMsg *m;
    int running = 0;
    int left = 0;

    if (!r->busy)
        return err_set(err, ERR_INTERNAL, "no HTTP request is under way");
    if (curl_multi_perform(r->multi, &running) != CURLM_OK) {
        rest_cancel(r);
        return err_set(err, ERR_UNCERTAIN, "the HTTP request could not be carried on");
    }
    m = curl_multi_info_read(r->multi, &left);
    if (m != NULL && m->msg == CURLMSG_DONE)
        return finished(r, m->data.result, ret, err);
    return 0;
}

static int
finish(struct rest *r, struct deadline d, struct rest_reply *ret, struct err *err)
{
    for (;;) {
        int rc = rest_step(r, ret, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        (void)curl_multi_poll(r->multi, NULL, 0, deadline_poll_ms(d, 1000), NULL);
    }
}

int
rest_call(struct rest *r, const char *method, const char *path, const char *body, struct deadline d,
          struct rest_reply *ret, struct err *err)
{
    if (rest_begin(r, method, path, body, d, err) < 0)
        return -1;
    return finish(r, d, ret, err);
}

int
rest_call_file(struct rest *r, const char *method, const char *path, struct rest_file *f,
               struct deadline d, struct rest_reply *ret, struct err *err)
{
    int rc;

    f->got = 0;
    rc = begin(r, method, path, NULL, f, d, err);
    if (rc == 0)
        rc = finish(r, d, ret, err);
    r->file = NULL;
    return rc;
}

int
rest_escape(struct buf *out, const char *segment)
{
    for (const char *p = segment; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        int rc;
        if (isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~')
            rc = buf_putc(out, *p);
        else
            rc = buf_printf(out, "%%%02X", c);
        if (rc < 0)
            return -1;
    }
    return 0;
}
