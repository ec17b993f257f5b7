/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include "conf/settings.h"

#include <stdlib.h>
#include <string.h>

/* A settings file. What is taken can be dumped, and what was dumped is taken again. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings s, again;
    struct err err = ERR_INIT;
    settings_defaults(&s);
    if (settings_parse((const char *)data, size, "f", &s, &err) < 0) {
        if (err.code != ERR_INVALID || strncmp(err.msg, "f:", 2) != 0)
            abort();
        settings_done(&s);
        return 0;
    }
    struct buf out = BUF_INIT(1 << 20);
    settings_defaults(&again);
    if (settings_dump(&s, &out) < 0 ||
        settings_parse(buf_str(&out), out.len, "dump", &again, &err) < 0)
        abort();
    buf_done(&out);
    settings_done(&s);
    settings_done(&again);
    return 0;
}
