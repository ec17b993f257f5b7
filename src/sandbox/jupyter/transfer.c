/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/num.h"
#include "sandbox/jupyter/agent.h"

#define LIST_MAX (16 * 1024 * 1024) /* bytes of a list as it travels */
#define WORDS_MAX 8
#define INTERRUPT_MS 2000
#define NAME_BYTES 16

/* One operation on the files of one kernel. */
struct transfer {
    struct jupyter *j;
    const struct runtime_ref *rt;
    struct channel *c;
    struct deadline d;
    struct buf args, words; /* of the call at hand */
};

static int
begin(struct transfer *t, struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
      struct err *err)
{
    *t = (struct transfer){.j = (struct jupyter *)sb, .rt = rt, .d = d};
    buf_init(&t->args, AGENT_ARGS_MAX);
    buf_init(&t->words, KMSG_STRING_MAX + 16);
    return jupyter_attach(t->j, rt, NULL, d, &t->c, err);
}

/* rc as it is, for the caller to return. After a failure that was not the agent's own word the
 * channel is of no more use, and a kernel that did not answer is not left at work. */
static int
end(struct transfer *t, int rc, const struct err *err)
{
    bool answered = rc == 0 || (err->slug != NULL && strcmp(err->slug, "runtime_gone") != 0 &&
                                strcmp(err->slug, "gateway_unavailable") != 0);

    if (rc < 0 && err->code == ERR_TIMEOUT)
        (void)gateway_interrupt(t->j->gateway, t->rt->handle, deadline_in(INTERRUPT_MS), NULL);
    if (t->c != NULL && answered)
        kept_put(&t->j->kept, t->c);
    else
        channel_free(t->c);
    buf_done(&t->args);
    buf_done(&t->words);
    return rc;
}

static int
call(struct transfer *t, const char *operation, struct err *err)
{
    int rc = agent_call(t->j, t->c, operation, &t->args, &t->words, t->d, err);

    buf_clear(&t->args);
    return rc;
}

static int
nonsense(struct err *err)
{
    return err_slug(err, ERR_UNAVAILABLE, "transfer_failed",
                    "the kernel's answer makes no sense; has the session's code changed what "
                    "answers?");
}

/* A line's words, borrowed; how many, or -1 if over max. */
struct word {
    const char *p;
    size_t n;
};

static int
split(const char *p, size_t n, struct word *ret, int max)
{
    int k = 0;

    while (n > 0) {
        const char *space = memchr(p, ' ', n);
        size_t len = space != NULL ? (size_t)(space - p) : n;

        if (k == max)
            return -1;
        ret[k++] = (struct word){p, len};
        p += len;
        n -= len;
        if (n > 0) {
            p++;
            n--;
        }
    }
    return k;
}

/* "type inode size mtime ctime", as transfer.py's words() writes them. */
static bool
read_info(const struct word *w, struct file_info *ret)
{
    static const char letters[] = "fdlo"; /* in the order of enum file_type */
    const char *at = w[0].n == 1 ? strchr(letters, w[0].p[0]) : NULL;

    if (at == NULL || w[0].p[0] == '\0')
        return false;
    ret->type = (enum file_type)(at - letters);
    return num_u64(w[1].p, w[1].n, UINT64_MAX, &ret->inode) == 1 &&
           num_i64(w[2].p, w[2].n, 0, INT64_MAX, &ret->size) == 1 &&
           num_i64(w[3].p, w[3].n, INT64_MIN, INT64_MAX, &ret->mtime_ns) == 1 &&
           num_i64(w[4].p, w[4].n, INT64_MIN, INT64_MAX, &ret->ctime_ns) == 1;
}

static void
arg_info(struct buf *args, const struct file_info *f)
{
    char text[120];

    if (f == NULL) {
        agent_arg_word(args, NULL);
        return;
    }
    (void)snprintf(text, sizeof text, "%c %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64,
                   "fdlo"[f->type], f -> inode, f -> size, f -> mtime_ns, f -> ctime_ns);
    agent_arg_word(args, text);
}

/* Where fetched bytes go. */
struct sink {
    int fd;          /* or -1: */
    struct buf *buf; /* here */
};

static int
store(struct sink *s, const struct buf *bytes, struct err *err)
{
    if (s->fd < 0)
        return buf_append(s->buf, buf_str(bytes), bytes->len) < 0
                   ? err_set(err, ERR_NOMEM, "no memory for a list of files")
                   : 0;
    if (fd_write_all(s->fd, buf_str(bytes), bytes->len) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "a fetched file could not be staged");
    return 0;
}

/* The bytes of what `operation` reads by name, part after part, checked against the digest. */
static int
fetch(struct transfer *t, const char *operation, const char *name, size_t n, int64_t size,
      const struct word *sha256, struct sink *s, struct err *err)
{
    _cleanup_buf_ struct buf part = BUF_INIT(AGENT_READ_MAX + 1);
    struct sha256 *hash = sha256_new();
    uint8_t digest[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];

    for (int64_t at = 0; at < size; at += (int64_t)part.len) {
        int rc;

        agent_arg_bytes(&t->args, name, n);
        agent_arg_i64(&t->args, at);
        agent_arg_i64(&t->args, size - at < AGENT_READ_MAX ? size - at : AGENT_READ_MAX);
        buf_clear(&part);
        rc = call(t, operation, err);
        if (rc == 0 && (base64_decode(&part, buf_str(&t->words), t->words.len, false) != 1 ||
                        (int64_t)part.len > size - at))
            rc = nonsense(err);
        if (rc == 0 && part.len == 0)
            rc = err_slug(err, ERR_CONFLICT, "file_busy", "the file changed while it was fetched");
        if (rc == 0)
            rc = store(s, &part, err);
        if (rc < 0) {
            sha256_free(hash);
            return -1;
        }
        sha256_add(hash, part.data, part.len);
    }
    sha256_finish(hash, digest);
    hex_encode(digest, sizeof digest, hex);
    if (sha256->n == strlen(hex) && memcmp(sha256->p, hex, sha256->n) == 0)
        return 0;
    return err_slug(err, ERR_UNAVAILABLE, "transfer_failed",
                    "the bytes that came do not have the digest that the kernel named; did the "
                    "file change meanwhile?");
}

static int
get(struct transfer *t, const char *path, size_t n, int64_t max_bytes, int fd,
    struct file_info *ret, struct err *err)
{
    struct sink s = {.fd = fd};
    struct word w[WORDS_MAX];
    char hex[SHA256_HEX_SIZE];
    int rc;

    agent_arg_bytes(&t->args, path, n);
    agent_arg_i64(&t->args, max_bytes);
    rc = call(t, "get", err);
    if (rc < 0)
        return -1;
    if (split(buf_str(&t->words), t->words.len, w, WORDS_MAX) != 6 || !read_info(w, ret) ||
        ret->size > max_bytes || w[5].n != sizeof hex - 1)
        return nonsense(err);
    memcpy(hex, w[5].p, w[5].n); /* the words go with the next call */
    return fetch(t, "read", path, n, ret->size, &(struct word){hex, sizeof hex - 1}, &s, err);
}

int
transfer_get(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
             int64_t max_bytes, int fd, struct file_info *ret, struct deadline d, struct err *err)
{
    struct transfer t;
    int rc = begin(&t, sb, rt, d, err);

    return end(&t, rc < 0 ? rc : get(&t, path, n, max_bytes, fd, ret, err), err);
}

/* The bytes into the kernel's own incoming folder; sha256 is what they were. */
static int
send_bytes(struct transfer *t, const char *name, const struct file_put *p,
           char sha256[SHA256_HEX_SIZE], struct err *err)
{
    _cleanup_free_ char *part = malloc(AGENT_WRITE_MAX);
    struct sha256 *hash = sha256_new();
    uint8_t digest[SHA256_SIZE];
    int rc = part != NULL ? 0 : err_set(err, ERR_NOMEM, "no memory for an upload");
    size_t n;

    for (int64_t at = 0; rc == 0 && at < p->size; at += (int64_t)n) {
        n = p->size - at < AGENT_WRITE_MAX ? (size_t)(p->size - at) : AGENT_WRITE_MAX;
        if (fd_pread_all(p->fd, part, n, at) < 0) {
            rc = err_sys(err, ERR_INTERNAL, errno, "a staged upload could not be read");
            break;
        }
        sha256_add(hash, part, n);
        agent_arg_bytes(&t->args, name, strlen(name));
        agent_arg_i64(&t->args, at);
        (void)buf_puts(&t->args, "'");
        (void)base64_encode(&t->args, part, n);
        (void)buf_puts(&t->args, "',");
        rc = call(t, "write", err);
    }
    sha256_finish(hash, digest);
    hex_encode(digest, sizeof digest, sha256);
    return rc;
}

static int
put(struct transfer *t, const struct file_put *p, bool *ret_created, struct file_info *ret,
    struct err *err)
{
    char name[2 * NAME_BYTES + 1], sha256[SHA256_HEX_SIZE];
    struct word w[WORDS_MAX];

    id_random_hex(name, NAME_BYTES);
    agent_arg_bytes(&t->args, name, strlen(name));
    if (call(t, "begin", err) < 0 || send_bytes(t, name, p, sha256, err) < 0)
        return -1;
    agent_arg_bytes(&t->args, p->path, p->path_len);
    agent_arg_bytes(&t->args, name, strlen(name));
    agent_arg_i64(&t->args, p->size);
    agent_arg_word(&t->args, sha256);
    agent_arg_bool(&t->args, p->create);
    arg_info(&t->args, p->expected);
    if (call(t, "commit", err) < 0)
        return -1;
    if (split(buf_str(&t->words), t->words.len, w, WORDS_MAX) != 6 || w[0].n != 1 ||
        !read_info(w + 1, ret) || ret->size != p->size)
        return nonsense(err);
    *ret_created = w[0].p[0] == '1';
    return 0;
}

int
transfer_put(struct sandbox *sb, const struct runtime_ref *rt, const struct file_put *p,
             bool *ret_created, struct file_info *ret, struct deadline d, struct err *err)
{
    struct transfer t;
    int rc = begin(&t, sb, rt, d, err);

    return end(&t, rc < 0 ? rc : put(&t, p, ret_created, ret, err), err);
}

static int
look(struct transfer *t, const char *path, size_t n, struct file_info *ret, struct err *err)
{
    struct word w[WORDS_MAX];

    agent_arg_bytes(&t->args, path, n);
    if (call(t, "look", err) < 0)
        return -1;
    if (split(buf_str(&t->words), t->words.len, w, WORDS_MAX) != 5 || !read_info(w, ret))
        return nonsense(err);
    return 0;
}

int
transfer_stat(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
              struct file_info *ret, struct deadline d, struct err *err)
{
    struct transfer t;
    int rc = begin(&t, sb, rt, d, err);

    return end(&t, rc < 0 ? rc : look(&t, path, n, ret, err), err);
}

static int
remove_it(struct transfer *t, const char *path, size_t n, bool recursive, struct err *err)
{
    agent_arg_bytes(&t->args, path, n);
    agent_arg_bool(&t->args, recursive);
    return call(t, "remove", err);
}

int
transfer_remove(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                bool recursive, struct deadline d, struct err *err)
{
    struct transfer t;
    int rc = begin(&t, sb, rt, d, err);

    return end(&t, rc < 0 ? rc : remove_it(&t, path, n, recursive, err), err);
}

/* Does the query want this path? (It is behind `after`, the kernel saw to that.) */
static bool
wanted(const struct file_query *q, const char *path, size_t n)
{
    size_t skip = q->folder_len > 0 ? q->folder_len + 1 : 0;

    return n > skip &&
           (q->glob == NULL || glob_match(q->glob, strlen(q->glob), path + skip, n - skip));
}

/* The bytes that hex digits stand for, with a NUL behind them; NULL if they are none. */
static char *
read_hex(const struct word *w)
{
    _cleanup_free_ char *bytes = xcalloc(1, w->n / 2 + 1);

    for (size_t i = 0; i < w->n / 2; i++) {
        int high = hex_value(w->p[2 * i]), low = hex_value(w->p[2 * i + 1]);

        if (high < 0 || low < 0)
            return NULL;
        bytes[i] = (char)(high << 4 | low);
    }
    return w->n % 2 == 0 ? steal_ptr(bytes) : NULL;
}

/* A line of the list into the next entry, if it is wanted: 1 taken, 0 passed over, -1. */
static int
take_line(const struct file_query *q, const char *p, size_t n, struct file_list *ret)
{
    struct file_entry *e = &ret->entries[ret->n];
    struct word w[WORDS_MAX];
    _cleanup_free_ char *path = NULL;

    if (split(p, n, w, WORDS_MAX) != 6 || !read_info(w, &e->info))
        return -1;
    path = read_hex(&w[5]);
    if (path == NULL)
        return -1;
    if (!wanted(q, path, w[5].n / 2))
        return 0;
    if (ret->n == q->max_entries) {
        ret->more = true;
        return 0;
    }
    e->path_len = w[5].n / 2;
    e->path = steal_ptr(path);
    ret->n++;
    return 1;
}

static int
read_list(const struct file_query *q, const struct buf *text, struct file_list *ret,
          struct err *err)
{
    const char *p = buf_str(text), *behind = p + text->len;

    /* one entry over, where a line is read before it is known to be one too many */
    ret->entries = xcalloc(q->max_entries + 1, sizeof *ret->entries);
    while (p < behind && !ret->more) {
        const char *end_of_line = memchr(p, '\n', (size_t)(behind - p));

        if (end_of_line == NULL || take_line(q, p, (size_t)(end_of_line - p), ret) < 0) {
            file_list_done(ret);
            return nonsense(err);
        }
        p = end_of_line + 1;
    }
    return 0;
}

static int
list(struct transfer *t, const struct file_query *q, struct file_list *ret, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LIST_MAX);
    struct sink s = {.fd = -1, .buf = &text};
    char name[2 * NAME_BYTES + 1], hex[SHA256_HEX_SIZE];
    struct word w[WORDS_MAX];
    int64_t size;

    if (q->glob != NULL && strlen(q->glob) > GLOB_MAX)
        return err_slug(err, ERR_INVALID, "bad_value", "a pattern has at most %d bytes", GLOB_MAX);
    id_random_hex(name, NAME_BYTES);
    agent_arg_bytes(&t->args, name, strlen(name));
    agent_arg_bytes(&t->args, q->folder, q->folder_len);
    agent_arg_bool(&t->args, q->recursive);
    agent_arg_bytes(&t->args, q->after, q->after_len);
    agent_arg_i64(&t->args, LIST_MAX);
    if (call(t, "enlist", err) < 0)
        return -1;
    if (split(buf_str(&t->words), t->words.len, w, WORDS_MAX) != 2 ||
        num_i64(w[0].p, w[0].n, 0, LIST_MAX, &size) != 1 || w[1].n != sizeof hex - 1)
        return nonsense(err);
    memcpy(hex, w[1].p, w[1].n);
    if (fetch(t, "read_list", name, strlen(name), size, &(struct word){hex, sizeof hex - 1}, &s,
              err) < 0)
        return -1;
    return read_list(q, &text, ret, err);
}

int
transfer_list(struct sandbox *sb, const struct runtime_ref *rt, const struct file_query *q,
              struct file_list *ret, struct deadline d, struct err *err)
{
    struct transfer t;
    int rc = begin(&t, sb, rt, d, err);

    *ret = (struct file_list){0};
    return end(&t, rc < 0 ? rc : list(&t, q, ret, err), err);
}
