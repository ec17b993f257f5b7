/* SPDX-License-Identifier: MIT */
#include "spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "spool/spool_format.h"

struct spool_reader {
    int fd;
    off_t at;          /* of the next record */
    int64_t seq;       /* of the last record seen */
    int64_t after_seq; /* events up to this one are passed over */
    bool ended;
    bool says_how; /* payload is the end mark's */
    struct buf payload;
};

int
spool_open(const char *dir, const char *eid, int64_t after_seq, struct spool_reader **ret,
           struct err *err)
{
    char path[SPOOL_NAME_MAX];
    if (spool_path(dir, eid, SPOOL_EVENTS, path, err) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return err_slug(err, ERR_NOT_FOUND, "events_gone", "the events of %s are not kept", eid);
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot open %s", path);
    struct spool_reader *r = xcalloc(1, sizeof(*r));
    r->fd = fd;
    r->after_seq = after_seq;
    buf_init(&r->payload, SPOOL_PAYLOAD_MAX);
    *ret = r;
    return 0;
}

static int
damaged(const struct spool_reader *r, struct err *err, const char *what)
{
    return err_set(err, ERR_INTERNAL, "the spool is damaged at byte %" PRId64 ": %s",
                   (int64_t)r->at, what);
}

/* 1 a whole record stands at `at`, 0 not yet, -1 damaged. */
static int
peek(const struct spool_reader *r, off_t at, int64_t after_seq, struct spool_header *h,
     struct err *err)
{
    struct stat st;
    if (fstat(r->fd, &st) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot look at the spool");
    if (st.st_size - at < (off_t)sizeof(*h))
        return 0;
    if (fd_pread_all(r->fd, h, sizeof(*h), at) < 0) {
        if (errno == ENODATA)
            return 0; /* cut off in between */
        return err_sys(err, ERR_INTERNAL, errno, "cannot read the spool");
    }
    if (h->magic != SPOOL_MAGIC || h->zero != 0)
        return damaged(r, err, "no record begins here");
    if (h->type > EVENT_RESULT && h->type != SPOOL_END)
        return damaged(r, err, "unknown type");
    if (h->length > SPOOL_PAYLOAD_MAX ||
        (h->type == SPOOL_END && h->length && h->length != sizeof(struct spool_end_record)))
        return damaged(r, err, "too long");
    if (h->seq <= after_seq)
        return damaged(r, err, "out of order");
    return st.st_size - at - (off_t)sizeof(*h) >= (off_t)h->length;
}

static off_t
behind(off_t at, const struct spool_header *h)
{
    return at + (off_t)sizeof(*h) + (off_t)h->length;
}

/* The next record that may be given out: as peek(). */
static int
next_record(const struct spool_reader *r, struct spool_header *h, struct err *err)
{
    struct spool_header end;
    int rc = peek(r, r->at, r->seq, h, err);

    if (rc <= 0 || h->type != EVENT_RESULT)
        return rc;
    return peek(r, behind(r->at, h), h->seq, &end, err);
}

int
spool_next(struct spool_reader *r, struct exec_event *ret, int64_t *ret_seq, struct err *err)
{
    while (!r->ended) {
        struct spool_header h;
        int rc = next_record(r, &h, err);
        if (rc <= 0)
            return rc;
        bool wanted = h.type != SPOOL_END && h.seq > r->after_seq;
        if (wanted || (h.type == SPOOL_END && h.length)) {
            buf_clear(&r->payload);
            char *p = buf_reserve(&r->payload, h.length);
            if (!p)
                return err_set(err, ERR_NOMEM, "no memory for an event of %u bytes", h.length);
            if (fd_pread_all(r->fd, p, h.length, r->at + (off_t)sizeof(h)) < 0) {
                if (errno == ENODATA)
                    return 0;
                return err_sys(err, ERR_INTERNAL, errno, "cannot read the spool");
            }
            buf_added(&r->payload, h.length);
        }
        r->at = behind(r->at, &h);
        r->seq = h.seq;
        r->ended = h.type == SPOOL_END;
        r->says_how = r->ended && h.length;
        if (wanted) {
            *ret = (struct exec_event){(enum exec_event_type)h.type, buf_str(&r->payload),
                                       r->payload.len};
            *ret_seq = h.seq;
            return 1;
        }
    }
    return 2;
}

static bool
decode_end(const struct spool_reader *r, struct spool_end *ret)
{
    struct spool_end_record e;

    memcpy(&e, r->payload.data, sizeof(e));
    if (e.reason <= REASON_NONE || e.reason >= EXEC_REASONS)
        return false;
    *ret = (struct spool_end){.ended_at = e.ended_at,
                              .duration_ms = e.duration_ms,
                              .bytes_stdout = e.bytes_stdout,
                              .bytes_stderr = e.bytes_stderr,
                              .bytes_rich = e.bytes_rich,
                              .reason = (enum exec_reason)e.reason,
                              .ok = e.ok != 0,
                              .truncated = e.truncated != 0,
                              .runtime_invalidated = e.runtime_invalidated != 0,
                              .state_lost_told = e.state_lost_told != 0};
    memcpy(ret->error_name, e.error_name, strnlen(e.error_name, sizeof(e.error_name) - 1));
    return true;
}

int
spool_get_end(const char *dir, const char *eid, struct spool_end *ret, struct err *err)
{
    struct spool_reader *r = NULL;
    struct exec_event ev;
    int64_t seq;
    int rc;

    if (spool_open(dir, eid, INT64_MAX, &r, err) < 0)
        return -1;
    rc = spool_next(r, &ev, &seq, err); /* no event is behind that number */
    if (rc >= 0 && !(rc == 2 && r->says_how && decode_end(r, ret)))
        rc = err_slug(err, ERR_NOT_FOUND, "events_gone", "how %s ended is not said", eid);
    spool_reader_free(r);
    return rc < 0 ? -1 : 0;
}

void
spool_reader_free(struct spool_reader *r)
{
    if (!r)
        return;
    (void)close(r->fd);
    buf_done(&r->payload);
    free(r);
}
