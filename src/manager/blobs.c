/* SPDX-License-Identifier: MIT */
#include "manager/blobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"

#define STEP (256 * 1024)
#define BUCKETS 256
#define TMP_PREFIX ".tmp-"
#define NAME_SIZE 80
/* Nobody but us reads them: a session's code never does. */
#define BLOB_MODE 0600
#define BUCKET_MODE 0700

int
blobs_open(const char *dir, struct err *err)
{
    int fd;

    if (fd_mkdirs(dir, BUCKET_MODE, err) < 0)
        return -1;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, ERR_UNAVAILABLE, errno, "the folder %s", dir) : fd;
}

/* "ab/cdef…" */
static void
name_of(const char *sha256, char out[NAME_SIZE])
{
    (void)snprintf(out, NAME_SIZE, "%.2s/%.62s", sha256, sha256 + 2);
}

static int
disk_err(struct err *err, const char *what)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return err_slug(err, ERR_LIMIT, "disk_full", "no space is left for artifacts");
    return err_sys(err, ERR_INTERNAL, errno, "artifacts: %s", what);
}

struct source {
    int fd;
    int64_t max;
    struct deadline d;
};

static int
copy(const struct source *in, int out, uint8_t ret[SHA256_SIZE], int64_t *ret_size, struct err *err)
{
    _cleanup_free_ char *buf = malloc(STEP);
    struct sha256 *h = sha256_new();
    int64_t at = 0;
    int rc = buf ? 0 : err_set(err, ERR_NOMEM, "no memory to keep a file");

    while (rc == 0) {
        ssize_t n = pread(in->fd, buf, STEP, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            break;
        if (n < 0)
            rc = err_sys(err, ERR_UNAVAILABLE, errno, "a file cannot be read");
        else if (n > in->max - at)
            rc = err_slug(err, ERR_LIMIT, "file_too_large", "the file is larger than %lld bytes",
                          (long long)in->max);
        else if (deadline_passed(in->d))
            rc = err_set(err, ERR_TIMEOUT, "no time is left to keep a file");
        else if (fd_write_all(out, buf, (size_t)n) < 0)
            rc = disk_err(err, "writing");
        else
            sha256_add(h, buf, (size_t)n);
        at += n;
    }
    if (rc < 0) {
        sha256_free(h);
        return -1;
    }
    sha256_finish(h, ret);
    *ret_size = at;
    return 0;
}

/* The content under its own name, and both on disk. Where it is there already, whoever wrote it may
 * have been killed before its name was. */
static int
give_name(int dir_fd, int out, const char *tmp, const char *sha256, struct err *err)
{
    char name[NAME_SIZE], bucket[3] = {sha256[0], sha256[1], '\0'};

    if (mkdirat(dir_fd, bucket, BUCKET_MODE) < 0 && errno != EEXIST)
        return disk_err(err, "making a folder");
    _cleanup_close_ int fd = openat(dir_fd, bucket, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    name_of(sha256, name);
    if (fd < 0 || (utimensat(dir_fd, name, NULL, AT_SYMLINK_NOFOLLOW) < 0 &&
                   (fsync(out) < 0 || renameat(dir_fd, tmp, dir_fd, name) < 0)))
        return disk_err(err, "renaming");
    if (fsync(fd) < 0 || fsync(dir_fd) < 0)
        return disk_err(err, "putting a name on disk");
    return 0;
}

int
blobs_put(int dir_fd, int fd, int64_t max, struct deadline d, char ret_sha256[SHA256_HEX_SIZE],
          int64_t *ret_size, struct err *err)
{
    const struct source in = {fd, max, d};
    uint8_t digest[SHA256_SIZE];
    char hex[33], tmp[NAME_SIZE];
    int rc;

    id_random_hex(hex, 16);
    (void)snprintf(tmp, sizeof(tmp), TMP_PREFIX "%s", hex);
    _cleanup_close_ int out =
        openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, BLOB_MODE);
    if (out < 0)
        return disk_err(err, "making a file");
    rc = copy(&in, out, digest, ret_size, err);
    if (rc == 0) {
        hex_encode(digest, sizeof(digest), ret_sha256);
        rc = give_name(dir_fd, out, tmp, ret_sha256, err);
    }
    (void)unlinkat(dir_fd, tmp, 0); /* renamed away if all is well */
    return rc;
}

int
blobs_get(int dir_fd, const char *sha256, int *ret_fd, struct err *err)
{
    char name[NAME_SIZE];

    name_of(sha256, name);
    *ret_fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret_fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the content %.16s… of an artifact", sha256);
    return 0;
}

bool
blobs_there(int dir_fd, const char *sha256)
{
    char name[NAME_SIZE];

    name_of(sha256, name);
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int
blobs_remove(int dir_fd, const char *sha256)
{
    char name[NAME_SIZE];

    name_of(sha256, name);
    return unlinkat(dir_fd, name, 0);
}

static DIR *
open_dir(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (!dir)
        cleanup_close(&fd);
    return dir;
}

static bool
is_old(int dir_fd, const char *name, int64_t before_wall_ms)
{
    struct stat st;

    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           (int64_t)st.st_mtim.tv_sec * 1000 < before_wall_ms;
}

static void
old_temporaries(int dir_fd, int64_t before_wall_ms)
{
    _cleanup_closedir_ DIR *dir = open_dir(dir_fd, ".");
    struct dirent *de;

    while (dir && (de = readdir(dir)) != NULL)
        if (strncmp(de->d_name, TMP_PREFIX, strlen(TMP_PREFIX)) == 0 &&
            is_old(dir_fd, de->d_name, before_wall_ms))
            (void)unlinkat(dir_fd, de->d_name, 0);
}

void
blobs_old(int dir_fd, int64_t before_wall_ms, struct deadline d,
          void (*fn)(void *ctx, const char *sha256), void *ctx)
{
    uint8_t from;

    old_temporaries(dir_fd, before_wall_ms);
    id_random_bytes(&from, sizeof(from));
    for (int i = 0; i < BUCKETS && !deadline_passed(d); i++) {
        char bucket[3], sha256[SHA256_HEX_SIZE];
        struct dirent *de;

        (void)snprintf(bucket, sizeof(bucket), "%02x", (unsigned)(from + i) % BUCKETS);
        _cleanup_closedir_ DIR *dir = open_dir(dir_fd, bucket);
        while (dir && (de = readdir(dir)) != NULL && !deadline_passed(d)) {
            if (strlen(de->d_name) != SHA256_HEX_SIZE - 3 ||
                !is_old(dirfd(dir), de->d_name, before_wall_ms))
                continue;
            (void)snprintf(sha256, sizeof(sha256), "%s%.62s", bucket, de->d_name);
            fn(ctx, sha256);
        }
    }
}
