/* SPDX-License-Identifier: MIT */
#include "spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "spool/spool_format.h"

struct spool_writer {
    int fd;
    off_t end; /* of the last whole record */
    int64_t max_bytes;
    int64_t seq;     /* of the last event, dropped ones included */
    int64_t dropped; /* payload bytes since the gap began */
    bool gapped;
};

int
spool_create(const char *dir, const char *eid, int64_t max_bytes, struct spool_writer **ret,
             struct err *err)
{
    char path[SPOOL_NAME_MAX];
    if (spool_path(dir, eid, SPOOL_EVENTS, path, err) < 0)
        return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0660);
    if (fd < 0)
        return err_sys(err, errno == ENOSPC ? ERR_LIMIT : ERR_INTERNAL, errno, "cannot make %s",
                       path);
    struct spool_writer *w = xcalloc(1, sizeof(*w));
    w->fd = fd;
    w->max_bytes = max_bytes;
    *ret = w;
    return 0;
}

/* One record, whole or not at all: what a full disk left of it is cut off again, so that the next
 * one stands where readers look for it. */
static bool
put_record(struct spool_writer *w, uint32_t type, int64_t seq, const char *p, size_t n)
{
    struct spool_header h = {.magic = SPOOL_MAGIC, .type = type, .length = (uint32_t)n, .seq = seq};
    struct iovec iov[2] = {{&h, sizeof(h)}, {(void *)(uintptr_t)p, n}};
    ssize_t wrote;
    do
        wrote = pwritev(w->fd, iov, n ? 2 : 1, w->end);
    while (wrote < 0 && errno == EINTR);
    if (wrote != (ssize_t)(sizeof(h) + n)) {
        /* Should the cut fail too, the next record overwrites what is left. */
        if (wrote > 0 && ftruncate(w->fd, w->end) < 0)
            w->gapped = true;
        return false;
    }
    w->end += wrote;
    return true;
}

/* The gap is written when it is over: only then is it known how much is missing, and whoever
 * resumes within it still meets it. */
static void
put_gap(struct spool_writer *w)
{
    char json[64];
    int n = snprintf(json, sizeof(json), "{\"dropped_bytes\":%" PRId64 "}", w->dropped);
    if (put_record(w, EVENT_GAP, w->seq + 1, json, (size_t)n)) {
        w->seq++;
        w->dropped = 0;
    }
}

int
spool_append(struct spool_writer *w, const struct exec_event *ev, int64_t *ret_seq)
{
    bool last = ev->type == EVENT_RESULT;
    bool fits =
        ev->n <= SPOOL_PAYLOAD_MAX &&
        (last || (int64_t)w->end + (int64_t)(sizeof(struct spool_header) + ev->n) <= w->max_bytes);
    if (last && w->gapped && w->dropped)
        put_gap(w);
    int64_t seq = ++w->seq;
    /* A result behind a gap that could not be written would pass for that of a whole run. */
    bool wanted = fits && (last ? w->dropped == 0 : !w->gapped);
    if (!wanted || !put_record(w, (uint32_t)ev->type, seq, ev->p, ev->n)) {
        w->gapped = true;
        w->dropped += last ? 0 : (int64_t)ev->n;
    }
    if (ret_seq)
        *ret_seq = seq;
    return 0;
}

int64_t
spool_untold(const struct spool_writer *w)
{
    return w->dropped;
}

/* The end mark and the result behind it, in one write: a reader finds both or neither. */
static bool
put_end(struct spool_writer *w, const struct spool_end_record *end, const char *result, size_t n)
{
    size_t end_len = end ? sizeof(*end) : 0;
    struct spool_header h[] = {
        {.magic = SPOOL_MAGIC, .type = SPOOL_END, .length = (uint32_t)end_len, .seq = w->seq + 1},
        {.magic = SPOOL_MAGIC, .type = SPOOL_RESULT, .length = (uint32_t)n},
        {.magic = SPOOL_MAGIC,
         .type = SPOOL_RESULT,
         .seq = w->end + (off_t)(sizeof(h[0]) + end_len)},
    };
    struct iovec iov[] = {{&h[0], sizeof(h[0])},
                          {(void *)(uintptr_t)end, end_len},
                          {&h[1], sizeof(h[1])},
                          {(void *)(uintptr_t)result, n},
                          {&h[2], sizeof(h[2])}};
    ssize_t wrote;

    do
        wrote = pwritev(w->fd, iov, 5, w->end);
    while (wrote < 0 && errno == EINTR);
    if (wrote == (ssize_t)(sizeof(h) + end_len + n))
        return true;
    if (wrote > 0)
        (void)!ftruncate(w->fd, w->end);
    return false;
}

static void
encode_end(const struct spool_end *e, struct spool_end_record *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->ended_at = e->ended_at;
    ret->duration_ms = e->duration_ms;
    ret->bytes_stdout = e->bytes_stdout;
    ret->bytes_stderr = e->bytes_stderr;
    ret->bytes_rich = e->bytes_rich;
    ret->reason = (uint32_t)e->reason;
    ret->ok = e->ok;
    ret->truncated = e->truncated;
    ret->runtime_invalidated = e->runtime_invalidated;
    ret->state_lost_told = e->state_lost_told;
    memcpy(ret->error_name, e->error_name, strnlen(e->error_name, sizeof(e->error_name) - 1));
}

int
spool_finish(struct spool_writer *w, const struct spool_end *end, const char *result, size_t n,
             struct err *err)
{
    struct spool_end_record record;
    int rc = 0;

    if (end)
        encode_end(end, &record);
    if (w->dropped)
        put_gap(w);
    if (result == NULL || n > UINT32_MAX || !put_end(w, end ? &record : NULL, result, n)) {
        if (result != NULL)
            rc = err_set(err, ERR_LIMIT, "the result of %zu bytes could not be written", n);
        (void)put_record(w, SPOOL_END, w->seq + 1, end ? (const char *)&record : NULL,
                         end ? sizeof(record) : 0);
    }
    spool_writer_free(w);
    return rc;
}

void
spool_writer_free(struct spool_writer *w)
{
    if (!w)
        return;
    (void)close(w->fd);
    free(w);
}
