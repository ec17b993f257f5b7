/* SPDX-License-Identifier: MIT */
#include "keeper/root.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keeper/proc_mask.h"

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
/* Below run_dir: always empty, the mount point of new roots. */
#define ROOT_FOLDER "/root"
/* The root holds links, mount points and a few short files. */
#define ROOT_BYTES (1024 * 1024)
#define ROOT_INODES 1024
/* In the new root: where the session's devices are made, to be mounted in their places. */
#define OWN_DEVICES "./mnt"
/* Scratch space where memory is not limited, and the least there is. */
#define SCRATCH_BYTES (256LL * 1024 * 1024)
#define SCRATCH_MIN_BYTES (8LL * 1024 * 1024)
/* A tmpfs without a bound on inodes lets empty files eat kernel memory. */
#define SCRATCH_BYTES_PER_INODE 16384
/* The machine has some thousand for all: one session must not take them. */
#define TERMINALS_MAX "64"

/* What the loader, Python, OpenSSL, fontconfig and matplotlib read. No passwd, no keys, no
 * configuration of any service. */
const char *const root_etc[] = {"alternatives",
                                "ca-certificates",
                                "ca-certificates.conf",
                                "crypto-policies",
                                "debian_version",
                                "fonts",
                                "ld.so.cache",
                                "ld.so.conf",
                                "ld.so.conf.d",
                                "locale.alias",
                                "localtime",
                                "magic",
                                "matplotlibrc",
                                "mime.types",
                                "os-release",
                                "pki/ca-trust",
                                "pki/tls/certs",
                                "protocols",
                                "python3",
                                "python3.11",
                                "python3.12",
                                "python3.13",
                                "services",
                                "ssl/certs",
                                "ssl/openssl.cnf",
                                "terminfo",
                                "timezone",
                                NULL};

static const char *const links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};
/* How many processors there are, and which memory is near which: what libraries for parallel work
 * look for. */
static const char *const machine[] = {"/sys/devices/system/cpu", "/sys/devices/system/node"};
static const char *const devices[] = {"null", "zero", "full", "random", "urandom", NULL};

static const struct {
    const char *target, *name;
} made_links[] = {
    {"/proc/self/fd", "dev/fd"},       {"/proc/self/fd/0", "dev/stdin"},
    {"/proc/self/fd/1", "dev/stdout"}, {"/proc/self/fd/2", "dev/stderr"},
    {"pts/ptmx", "dev/ptmx"},          {"../tmp", "var/tmp"},
    {"home/workspace", "workspace"},
};

static const char *const folders[] = {"dev",       "dev/shm",        "dev/pts", "etc", "home",
                                      "home/husk", "home/workspace", "mnt",     "opt", "proc",
                                      "run",       "run/husk",       "sys",     "tmp", "usr",
                                      "var",       "var/cache",      "var/lib", NULL};

/* mkdir -p below root, for all of path or, for a file, for what leads to it. */
static int
make_folders(int root, const char *path, bool whole, struct err *err)
{
    char part[PATH_MAX];

    if (strlen(path) >= sizeof part)
        return err_set(err, ERR_LIMIT, "the path %.60s… is too long", path);
    for (const char *p = path; *p != '\0'; p++) {
        size_t n = (size_t)(p - path);
        bool end = p[1] == '\0';

        if ((*p != '/' || n == 0) && !(end && whole))
            continue;
        if (end && *p != '/')
            n++;
        memcpy(part, path, n);
        part[n] = '\0';
        if (mkdirat(root, part, 0755) < 0 && errno != EEXIST)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make /%s in the new root", part);
    }
    return 0;
}

static int
write_text(int root, const char *path, mode_t mode, const char *text, struct err *err)
{
    _cleanup_close_ int fd =
        openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

    if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot write /%s in the new root", path);
    return 0;
}

/* A clone of src (a file, or a folder with all that is mounted below it) onto path in the new root;
 * its attributes are set before it can be seen. */
static int
bind(int root, const char *src, const char *path, uint64_t attributes, struct err *err)
{
    struct mount_attr attr = {.attr_set = attributes};
    _cleanup_close_ int tree =
        open_tree(AT_FDCWD, src, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    struct stat st;

    if (tree < 0 || fstat(tree, &st) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot clone %s for the sandbox", src);
    if (make_folders(root, path, S_ISDIR(st.st_mode), err) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode)) {
        _cleanup_close_ int fd = openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);

        if (fd < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make /%s in the new root", path);
    }
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot restrict the mount of %s", src);
    if (move_mount(tree, "", root, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot mount %s in the new root", src);
    return 0;
}

/* The same for something that need not be there; a link is copied as one. */
static int
show(int root, const char *src, const char *path, struct err *err)
{
    char target[PATH_MAX];
    struct stat st;
    ssize_t n;

    if (lstat(src, &st) < 0)
        return 0;
    if (!S_ISLNK(st.st_mode))
        return bind(root, src, path, READ_ONLY, err);
    n = readlink(src, target, sizeof target - 1);
    if (n < 0)
        return 0;
    target[n] = '\0';
    if (make_folders(root, path, false, err) < 0)
        return -1;
    if (symlinkat(target, root, path) < 0 && errno != EEXIST)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make /%s in the new root", path);
    return 0;
}

static int
mount_scratch(const char *path, const char *type, unsigned long flags, const char *options,
              struct err *err)
{
    char at[64];

    (void)snprintf(at, sizeof at, "./%s", path);
    if (mount("husk", at, type, MS_NOSUID | flags, options) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot mount %s as /%s of the sandbox", type,
                       path);
    return 0;
}

static int
mount_tmpfs(const struct box_spec *s, const char *path, unsigned long flags, int parts,
            const char *mode, struct err *err)
{
    int64_t memory = s->o->limits.memory_bytes;
    int64_t bytes = memory > 0 ? memory / parts : SCRATCH_BYTES;
    char options[160];

    if (bytes < SCRATCH_MIN_BYTES)
        bytes = SCRATCH_MIN_BYTES;
    (void)snprintf(options, sizeof options, "size=%lld,nr_inodes=%lld,%s", (long long)bytes,
                   (long long)(bytes / SCRATCH_BYTES_PER_INODE), mode);
    return mount_scratch(path, "tmpfs", MS_NODEV | flags, options, err);
}

/* The session's group: its own, or the only one there is. */
static unsigned long
gid_of(const struct box_spec *s)
{
    return s->o->tier == TIER_ROOTLESS ? (unsigned long)getegid() : (unsigned long)s->uid;
}

static int
mount_all_scratch(const struct box_spec *s, struct err *err)
{
    char own[64];

    (void)snprintf(own, sizeof own, "mode=700,uid=%lu,gid=%lu", (unsigned long)s->uid, gid_of(s));
    if (mount_tmpfs(s, "tmp", 0, 4, "mode=1777", err) < 0 ||
        mount_tmpfs(s, "dev/shm", MS_NOEXEC, 4, "mode=1777", err) < 0 ||
        mount_tmpfs(s, "home/husk", 0, 4, own, err) < 0)
        return -1;
    return mount_scratch("dev/pts", "devpts", MS_NOEXEC,
                         "newinstance,ptmxmode=0666,mode=620,max=" TERMINALS_MAX, err);
}

static int
fill_etc(int root, const struct box_spec *s, struct err *err)
{
    unsigned long uid = (unsigned long)s->uid;
    char text[256];

    for (size_t i = 0; root_etc[i]; i++) {
        char src[80];

        (void)snprintf(src, sizeof src, "/etc/%s", root_etc[i]);
        if (show(root, src, src + 1, err) < 0)
            return -1;
    }
    (void)snprintf(text, sizeof text,
                   "root:x:0:0:root:/:/usr/sbin/nologin\n"
                   "session:x:%lu:%lu:session:" BOX_HOME ":/bin/bash\n",
                   uid, gid_of(s));
    if (write_text(root, "etc/passwd", 0444, text, err) < 0)
        return -1;
    (void)snprintf(text, sizeof text, "root:x:0:\nsession:x:%lu:\n", gid_of(s));
    if (write_text(root, "etc/group", 0444, text, err) < 0)
        return -1;
    (void)snprintf(text, sizeof text, "%s%s\n", s->o->egress_dns[0] != '\0' ? "nameserver " : "",
                   s->o->egress_dns);
    if (write_text(root, "etc/resolv.conf", 0444, s->o->egress == EGRESS_NONE ? "" : text, err) < 0)
        return -1;
    if (write_text(root, "etc/hosts", 0444, "127.0.0.1 localhost session\n::1 localhost\n", err) <
            0 ||
        write_text(root, "etc/hostname", 0444, "session\n", err) < 0)
        return -1;
    return write_text(root, "etc/nsswitch.conf", 0444,
                      "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n", err);
}

/* Where there are only the host's own devices, whoever watches one (inotify) learns of everybody's
 * use of it, and makes it slow. 1 made, 0 not allowed (a container's root). */
static int
make_devices(struct err *err)
{
    if (mount("husk", OWN_DEVICES, "tmpfs", MS_NOSUID | MS_NOEXEC,
              "size=4k,nr_inodes=16,mode=755") < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot mount a tmpfs for devices");
    for (size_t i = 0; devices[i]; i++) {
        char src[32], own[32];
        struct stat st;

        (void)snprintf(src, sizeof src, "/dev/%s", devices[i]);
        (void)snprintf(own, sizeof own, OWN_DEVICES "/%s", devices[i]);
        if (stat(src, &st) == 0 && mknod(own, S_IFCHR, st.st_rdev) == 0 && chmod(own, 0666) == 0)
            continue;
        if (errno == EPERM)
            return 0;
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the device %s", devices[i]);
    }
    return 1;
}

static int
fill_dev(int root, const struct box_spec *s, struct err *err)
{
    int own = s->o->tier == TIER_HOST ? make_devices(err) : 0;

    if (own < 0)
        return -1;
    for (size_t i = 0; devices[i]; i++) {
        char src[32], path[32];

        (void)snprintf(src, sizeof src, "%s/%s", own ? OWN_DEVICES : "/dev", devices[i]);
        (void)snprintf(path, sizeof path, "dev/%s", devices[i]);
        if (bind(root, src, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err) < 0)
            return -1;
    }
    if (s->o->tier == TIER_HOST && umount2(OWN_DEVICES, MNT_DETACH) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot unmount the tmpfs for devices");
    for (size_t i = 0; i < sizeof made_links / sizeof *made_links; i++)
        if (symlinkat(made_links[i].target, root, made_links[i].name) < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make /%s in the new root",
                           made_links[i].name);
    return 0;
}

/* May a folder of the host be laid over this path? Not where something of ours is or leads to. */
static bool
is_free(const char *path)
{
    if (path[0] != '/' || path[1] == '\0' || strstr(path, "/.."))
        return false;
    for (size_t i = 0; folders[i]; i++)
        if (strcmp(path + 1, folders[i]) == 0)
            return false;
    return true;
}

/* What the operator adds (SANDBOX_KERNEL_PATHS): at the same place, read-only. */
static int
show_paths(int root, const char *paths, struct err *err)
{
    for (const char *p = paths; *p != '\0';) {
        size_t n = strcspn(p, ":");
        char src[KEEPER_PATHS_MAX];

        memcpy(src, p, n);
        src[n] = '\0';
        p += n + (p[n] == ':');
        if (n == 0 || strncmp(src, "/usr/", 5) == 0)
            continue;
        if (!is_free(src))
            return err_set(err, ERR_INVALID, "%s cannot be shown in a sandbox", src);
        if (bind(root, src, src + 1, READ_ONLY, err) < 0)
            return -1;
    }
    return 0;
}

static int
fill(int root, const struct box_spec *s, struct err *err)
{
    for (size_t i = 0; folders[i]; i++)
        if (mkdirat(root, folders[i], 0755) < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make /%s in the new root",
                           folders[i]);
    if (bind(root, "/usr", "usr", READ_ONLY, err) < 0)
        return -1;
    for (size_t i = 0; links[i]; i++) {
        char src[16];

        (void)snprintf(src, sizeof src, "/%s", links[i]);
        if (show(root, src, links[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; i < sizeof machine / sizeof *machine; i++)
        if (show(root, machine[i], machine[i] + 1, err) < 0)
            return -1;
    if (s->o->library[0] != '\0' && bind(root, s->o->library, &BOX_LIBRARY[1], READ_ONLY, err) < 0)
        return -1;
    if (fill_etc(root, s, err) < 0 || fill_dev(root, s, err) < 0 || mount_all_scratch(s, err) < 0)
        return -1;
    /* After the scratch mounts, which would cover what is to be shown below them. */
    if (show_paths(root, s->o->paths, err) < 0)
        return -1;
    if (mount_scratch("proc", "proc", MS_NODEV | MS_NOEXEC, NULL, err) < 0)
        return -1;
    return proc_mask("proc", err);
}

/* The old root goes out of sight below the new one, then away with all its mounts. */
static int
enter(struct err *err)
{
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot change to the new root");
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot let go of the old root");
    return 0;
}

int
root_make(const struct box_spec *s, struct err *err)
{
    char at[KEEPER_PATH_MAX + sizeof ROOT_FOLDER];
    struct mount_attr attr = {.attr_set = READ_ONLY};
    _cleanup_close_ int root = -1;
    char options[64];

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the mounts private");
    (void)snprintf(at, sizeof at, "%s" ROOT_FOLDER, s->o->run_dir);
    if (mkdir(at, 0700) < 0 && errno != EEXIST)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make %s", at);
    (void)snprintf(options, sizeof options, "size=%d,nr_inodes=%d,mode=755", ROOT_BYTES,
                   ROOT_INODES);
    if (mount("husk", at, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot mount a tmpfs on %s", at);
    root = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || fchdir(root) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot enter %s", at);
    if (fill(root, s, err) < 0)
        return -1;
    if (mount_setattr(root, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the new root read-only");
    return enter(err);
}
