/* SPDX-License-Identifier: MIT */
/* Alarms: what the view tells, and who holds the database longer than anybody of ours does. */
#include "manager/manager.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "manager/internal.h"
#include "store/alarm_store.h"

#define HELD_TOO_LONG_MS 10000
#define BUSY_NOTICED_MS 5000 /* so long was the writer's lock waited for when that is noticed */
#define WAL_LARGE_BYTES (INT64_C(64) << 20)
#define HOLDER_LOOKS 5
#define HOLDER_LOOK_NS (10 * 1000 * 1000)
#define WATCH_MAGIC INT64_C(0x31304c4148) /* of the file's format */

/* Somebody holds a reader's or the writer's lock. */
struct held {
    int64_t since_ms; /* wall; 0 nobody */
    int64_t done;     /* reader: frames of the log that were copied when it was noticed */
    char by[64];
};

/* What is known from sweep to sweep, in a file: every process may show it, and a reaper may live
 * for one sweep only. Written by one process at a time (the sweep's lock) into a new file. */
struct watched {
    int64_t magic;
    struct held reader, writer;
};

static void
watched_read(const char *path, struct watched *ret)
{
    _cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;

    if (fd < 0 || fd_read_all(fd, ret, sizeof(*ret)) < 0 || ret->magic != WATCH_MAGIC)
        memset(ret, 0, sizeof(*ret));
    ret->reader.by[sizeof(ret->reader.by) - 1] = '\0';
    ret->writer.by[sizeof(ret->writer.by) - 1] = '\0';
}

static void
watched_write(const char *path, struct watched *w)
{
    char new_path[PATH_MAX];

    if ((size_t)snprintf(new_path, sizeof(new_path), "%s.new", path) >= sizeof(new_path))
        return;
    w->magic = WATCH_MAGIC;
    _cleanup_close_ int fd =
        open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0 || fd_write_all(fd, w, sizeof(*w)) < 0 || rename(new_path, path) < 0)
        log_warning("the alarms are not kept: %s", strerror(errno));
}

/* Names who holds it: seen twice in a row, for ours hold it for an instant only. */
static void
name_holder(struct manager *m, enum db_holder_kind kind, struct held *h)
{
    struct db_holder before = {0}, now;

    for (int i = 0; i < HOLDER_LOOKS; i++) {
        const struct timespec pause = {.tv_nsec = HOLDER_LOOK_NS};

        if (db_holder(m->db, kind, &now) && now.pid == before.pid) {
            (void)snprintf(h->by, sizeof(h->by), "process %d (%s)", now.pid, now.comm);
            return;
        }
        before = now;
        (void)nanosleep(&pause, NULL);
    }
    (void)snprintf(h->by, sizeof(h->by), "some process");
}

static void
look_at_reader(struct manager *m, struct held *h, struct err *err)
{
    struct db_wal log;

    if (db_checkpoint(m->db, &log, err) < 0) {
        log_warning("sweep, checkpoint: %s", err->msg);
        return;
    }
    if (log.frames < 0)
        return;
    if (log.done >= log.frames) {
        h->since_ms = 0;
    } else if (!h->since_ms || h->done != log.done) {
        h->since_ms = clock_wall_ms();
        h->done = log.done;
    }
    if (h->since_ms)
        name_holder(m, DB_HOLDER_READER, h);
}

static int
look_at_writer(struct manager *m, struct held *h, struct err *err)
{
    if (db_probe_writer(m->db, err) == 0) {
        h->since_ms = 0;
        return 0;
    }
    if (err->code != ERR_UNAVAILABLE)
        return -1;
    if (!h->since_ms)
        h->since_ms = clock_wall_ms() - BUSY_NOTICED_MS;
    name_holder(m, DB_HOLDER_WRITER, h);
    return -1;
}

static int64_t
held_for_ms(const struct held *h)
{
    return h->since_ms ? clock_wall_ms() - h->since_ms : 0;
}

static int
put_held(const struct watched *w, struct alarm *ret)
{
    int n = 0;
    int64_t reader_ms = held_for_ms(&w->reader), writer_ms = held_for_ms(&w->writer);

    memset(ret, 0, 2 * sizeof(*ret));
    if (reader_ms >= HELD_TOO_LONG_MS) {
        (void)snprintf(ret[n].what, sizeof(ret[n].what), "%s", ALARM_READER);
        (void)snprintf(ret[n++].detail, sizeof(ret->detail),
                       "%s has been reading for %" PRId64
                       " s: the write-ahead log cannot be emptied",
                       w->reader.by, reader_ms / 1000);
    }
    if (writer_ms >= BUSY_NOTICED_MS) {
        (void)snprintf(ret[n].what, sizeof(ret[n].what), "%s", ALARM_WRITER);
        (void)snprintf(ret[n++].detail, sizeof(ret->detail),
                       "%s has held the writer's lock for %" PRId64
                       " s: whoever writes is answered database_busy",
                       w->writer.by, writer_ms / 1000);
    }
    return n;
}

int
alarms_watch(struct manager *m, struct err *err)
{
    struct watched w;
    struct alarm raised[2];
    struct err cerr = ERR_INIT;
    int r, n;

    watched_read(m->o.alarms_path, &w);
    r = look_at_writer(m, &w.writer, err);
    if (r == 0)
        look_at_reader(m, &w.reader, &cerr);
    watched_write(m->o.alarms_path, &w);
    n = put_held(&w, raised);
    for (int i = 0; i < n; i++)
        log_warning("alarm, %s: %s", raised[i].what, raised[i].detail);
    return r;
}

int
manager_alarms(struct manager *m, struct alarm ret[MANAGER_ALARMS_MAX], struct err *err)
{
    struct watched w;
    int64_t size, wal;
    int n = alarm_store_list(m->db, ret, MANAGER_ALARMS_MAX - 3, err);

    if (n < 0)
        return -1;
    watched_read(m->o.alarms_path, &w);
    n += put_held(&w, ret + n);
    db_sizes(m->db, &size, &wal);
    if (wal > WAL_LARGE_BYTES) {
        memset(&ret[n], 0, sizeof(ret[n]));
        (void)snprintf(ret[n].what, sizeof(ret[n].what), "%s", ALARM_WAL);
        (void)snprintf(ret[n++].detail, sizeof(ret->detail),
                       "the write-ahead log has grown to %" PRId64 " MiB", wal >> 20);
    }
    return n;
}
