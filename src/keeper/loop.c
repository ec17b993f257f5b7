/* SPDX-License-Identifier: MIT */
#include "keeper/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"

#define BLOCK_SIZE 4096
/* Others take devices at the same time; each try is a fresh one. */
#define ATTACH_TRIES 64
#define LOOP_NUMBER_MAX (1 << 20)

static int
open_number(uint64_t n, char ret_path[LOOP_PATH_SIZE])
{
    (void)snprintf(ret_path, LOOP_PATH_SIZE, "/dev/loop%u", (unsigned)n);
    return open(ret_path, O_RDWR | O_CLOEXEC);
}

static bool
in_use(const char *block_name)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/sys/block/%.32s/loop/backing_file", block_name);
    return access(path, F_OK) == 0;
}

/* The device that has this file behind it, open; -1 there is none. */
static int
find(const struct stat *image, char ret_path[LOOP_PATH_SIZE])
{
    _cleanup_closedir_ DIR *dir = opendir("/sys/block");
    struct dirent *de;

    while (dir && (de = readdir(dir))) {
        struct loop_info64 info;
        uint64_t n;

        if (strncmp(de->d_name, "loop", 4) != 0 ||
            num_u64(de->d_name + 4, strlen(de->d_name + 4), LOOP_NUMBER_MAX, &n) != 1 ||
            !in_use(de->d_name))
            continue;
        _cleanup_close_ int fd = open_number(n, ret_path);
        if (fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 &&
            info.lo_device == image->st_dev && info.lo_inode == image->st_ino)
            return steal_fd(&fd);
    }
    return -1;
}

static int
configure(int fd, int image_fd)
{
    struct loop_config c = {
        .fd = (uint32_t)image_fd,
        .block_size = BLOCK_SIZE,
        .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO},
    };
    int r = ioctl(fd, LOOP_CONFIGURE, &c);

    if (r < 0 && errno == EINVAL) { /* a file system without direct I/O */
        c.info.lo_flags = LO_FLAGS_AUTOCLEAR;
        r = ioctl(fd, LOOP_CONFIGURE, &c);
    }
    return r;
}

int
loop_attach(int image_fd, char ret_path[LOOP_PATH_SIZE], struct err *err)
{
    struct stat st;
    _cleanup_close_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    int found;

    if (fstat(image_fd, &st) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "looking at an image");
    found = find(&st, ret_path);
    if (found >= 0)
        return found;
    if (control < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "there are no loop devices: /dev/loop-control");
    for (int i = 0; i < ATTACH_TRIES; i++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE);

        if (n < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "no loop device is to be had");
        _cleanup_close_ int fd = open_number((uint64_t)n, ret_path);
        if (fd < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "%s", ret_path);
        if (configure(fd, image_fd) == 0)
            return steal_fd(&fd);
        if (errno != EBUSY)
            return err_sys(err, ERR_UNAVAILABLE, errno, "attaching an image to %s", ret_path);
    }
    return err_set(err, ERR_UNAVAILABLE, "others take all loop devices");
}
