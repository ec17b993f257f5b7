/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_DOC_H
#define HUSK_TESTS_SUPPORT_DOC_H

#include "support/cmocka_all.h"

#include <string.h>

#include "base/buf.h"
#include "base/fd.h"

#define DOC_MAX (256 * 1024)

/* docs/`page` holds `want` to the letter; `program` --print makes it. */
static inline void
doc_has(const char *page, const char *want, const char *program)
{
    _cleanup_buf_ struct buf path = BUF_INIT(4096), text = BUF_INIT(DOC_MAX);
    struct err err = ERR_INIT;

    (void)buf_printf(&path, "%s/docs/%s", TOP_SRCDIR, page);
    if (fd_read_file(buf_str(&path), &text, &err) < 0)
        fail_msg("%s", err.msg);
    if (strstr(buf_str(&text), want) == NULL)
        fail_msg("docs/%s has another table: %s --print", page, program);
}

#endif
