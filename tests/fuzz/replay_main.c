/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

/*
 * Runs every file of a corpus directory through one fuzz target: the directory is the argument, or
 * below $HUSK_SOURCE (the source tree, set by make check) tests/fuzz/corpus/X for replay_X.
 */
#define INPUT_MAX (1 << 20)

/* Each input in memory of exactly its size, so that ASan sees a byte too far. */
static int
replay(const char *dir, const char *name)
{
    struct buf text = BUF_INIT(INPUT_MAX);
    struct err err = ERR_INIT;
    char path[4096];
    uint8_t *exact;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (fd_read_file(path, &text, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    exact = malloc(text.len ? text.len : 1);
    if (!exact)
        abort();
    memcpy(exact, buf_str(&text), text.len);
    (void)LLVMFuzzerTestOneInput(exact, text.len);
    free(exact);
    buf_done(&text);
    return 0;
}

int
main(int argc, char **argv)
{
    const char *root = getenv("HUSK_SOURCE"), *target = strstr(argv[0], "replay_");
    char dir[2048];
    struct dirent *e;
    int n = 0;

    if (argc > 1)
        (void)snprintf(dir, sizeof dir, "%s", argv[1]);
    else
        (void)snprintf(dir, sizeof dir, "%s/tests/fuzz/corpus/%s", root ? root : ".",
                       target ? target + strlen("replay_") : "");
    DIR *d = opendir(dir);
    if (!d) {
        perror(dir);
        return 1;
    }
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        if (replay(dir, e->d_name) < 0)
            return 1;
        n++;
    }
    (void)closedir(d);
    (void)printf("%d inputs of %s\n", n, dir);
    return n > 0 ? 0 : 1;
}
