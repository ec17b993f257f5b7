/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include "base/fd.h"
#include "spool/spool.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Any bytes as a spool's file: whatever a reader gives out is in order, of a known type and
 * bounded, and it comes to an end. */
static void
read_all(const char *dir, int64_t after)
{
    struct spool_reader *r = NULL;
    struct exec_event ev;
    struct err err = ERR_INIT;
    int64_t seq = 0, last = after;
    int rc;
    if (spool_open(dir, "0", after, &r, &err) < 0)
        abort();
    while ((rc = spool_next(r, &ev, &seq, &err)) == 1) {
        if (seq <= last || !exec_event_name(ev.type) || ev.n > 16u * 1024 * 1024 + 64 * 1024)
            abort();
        last = seq;
    }
    if (rc == 2 && spool_next(r, &ev, &seq, &err) != 2)
        abort();
    spool_reader_free(r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/husk-fuzz-spool-XXXXXX", path[64];
    if (!mkdtemp(dir))
        abort();
    snprintf(path, sizeof(path), "%s/0.events", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, data, size) < 0)
        abort();
    (void)close(fd);
    read_all(dir, 0);
    read_all(dir, 2);
    spool_remove(dir, "0");
    (void)rmdir(dir);
    return 0;
}
