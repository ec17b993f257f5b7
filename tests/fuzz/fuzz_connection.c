/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include "launch/connection.h"

#include <stdlib.h>
#include <string.h>

/* A connection file. What is accepted can be written again, fits, and reads as the same. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct connection c, again;
    struct buf out = BUF_INIT(2048);
    struct err err = ERR_INIT;
    char path[512];

    if (connection_parse((const char *)data, size, &c, &err) == 0) {
        if (connection_socket(&c, CHANNEL_HB, path, sizeof(path)) < 0 || path[0] != '/')
            abort();
        if (connection_write(&c, &out) < 0)
            abort();
        if (!strpbrk(c.key, "\\\"") && !strpbrk(c.scheme, "\\\"") &&
            !strpbrk(c.kernel_name, "\\\"") &&
            (connection_parse(buf_str(&out), out.len, &again, &err) < 0 ||
             strcmp(again.key, c.key) != 0 || memcmp(again.ports, c.ports, sizeof(c.ports)) != 0))
            abort();
    }
    buf_done(&out);
    return 0;
}
