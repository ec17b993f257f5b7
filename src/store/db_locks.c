/* SPDX-License-Identifier: MIT */
/* Which process stands in the way: SQLite's locks on the -shm file, as /proc/locks shows them. No
 * descriptor of that file is opened: closing it would drop this process's own locks. */
#include "store/db.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/num.h"
#include "store/sql.h"

/* Bytes of the -shm file, by SQLite's file format: 120 is the writer's, 123 to 127 the readers'. */
#define LOCK_WRITER 120
#define LOCK_READER_FIRST 123
#define LOCK_READER_LAST 127
#define LOCKS_LINE_MAX 256

static void
read_comm(int pid, char ret[DB_HOLDER_COMM])
{
    _cleanup_buf_ struct buf comm = BUF_INIT(DB_HOLDER_COMM);
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    *ret = '\0';
    if (fd_read_file(path, &comm, NULL) < 0)
        return;
    (void)snprintf(ret, DB_HOLDER_COMM, "%.*s", (int)strcspn(buf_str(&comm), "\n"), buf_str(&comm));
}

/* "1: POSIX  ADVISORY  READ 4711 08:01:1234 123 123"; 1 it is such a lock of that file. */
static int
parse_lock(const char *line, ino_t ino, int *ret_pid, int64_t *ret_first, int64_t *ret_last)
{
    char pid[16], file[64], first[24], last[24];
    const char *inode;
    int64_t p, n;

    if (sscanf(line, "%*s POSIX %*s %*s %15s %63s %23s %23s", pid, file, first, last) != 4)
        return 0;
    inode = strrchr(file, ':');
    if (!inode || !num_i64(inode + 1, strlen(inode + 1), 0, INT64_MAX, &n) || (ino_t)n != ino)
        return 0;
    if (!num_i64(pid, strlen(pid), 1, INT_MAX, &p) ||
        !num_i64(first, strlen(first), 0, INT64_MAX, ret_first) ||
        !num_i64(last, strlen(last), 0, INT64_MAX, ret_last))
        return 0;
    *ret_pid = (int)p;
    return 1;
}

static bool
is_wanted(enum db_holder_kind kind, int64_t first, int64_t last)
{
    if (kind == DB_HOLDER_WRITER)
        return first <= LOCK_WRITER && last >= LOCK_WRITER;
    return first <= LOCK_READER_LAST && last >= LOCK_READER_FIRST;
}

int
db_holder(const struct db *db, enum db_holder_kind kind, struct db_holder *ret)
{
    char shm[PATH_MAX + 4], line[LOCKS_LINE_MAX];
    struct stat st;
    FILE *f;

    (void)snprintf(shm, sizeof(shm), "%s-shm", db->path);
    if (stat(shm, &st) < 0)
        return 0;
    f = fopen("/proc/locks", "re");
    if (!f)
        return 0;
    memset(ret, 0, sizeof(*ret));
    while (!ret->pid && fgets(line, sizeof(line), f)) {
        int64_t first, last;
        int pid;

        if (parse_lock(line, st.st_ino, &pid, &first, &last) && pid != (int)getpid() &&
            is_wanted(kind, first, last))
            ret->pid = pid;
    }
    (void)fclose(f);
    if (ret->pid)
        read_comm(ret->pid, ret->comm);
    return ret->pid ? 1 : 0;
}
