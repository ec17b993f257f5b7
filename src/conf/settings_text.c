/* SPDX-License-Identifier: MIT */
/* The table as text: the effective values, the sample file, the documentation, the manual page. */
#include "conf/settings_table.h"

#include <string.h>

#define MASK "********"
#define WIDTH 98

static int
format_masked(const struct setting *t, const struct settings *s, struct buf *out)
{
    if (t->secret) {
        const char *text = *(char *const *)setting_peek(t, s);
        return buf_puts(out, text && text[0] ? MASK : "");
    }
    return setting_format(t, s, out);
}

int
settings_get(const struct settings *s, const char *key, struct buf *out)
{
    const struct setting *t = setting_find(key, strlen(key));
    if (!t)
        return 0;
    (void)format_masked(t, s, out);
    return 1;
}

int
settings_dump(const struct settings *s, struct buf *out)
{
    for (size_t i = 0; i < setting_count; i++) {
        (void)buf_printf(out, "%s=", setting_table[i].key);
        (void)format_masked(&setting_table[i], s, out);
        (void)buf_putc(out, '\n');
    }
    return out->failed ? -1 : 0;
}

/* Appends words, each line begun with `lead` and at most WIDTH wide. */
static void
wrap(struct buf *out, const char *lead, const char *text)
{
    size_t column = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column && column + 1 + word > WIDTH) {
            (void)buf_putc(out, '\n');
            column = 0;
        }
        (void)buf_puts(out, column ? " " : lead);
        (void)buf_append(out, text, word);
        column += (column ? 1 : strlen(lead)) + word;
        text += word;
        text += strspn(text, " ");
    }
    (void)buf_putc(out, '\n');
}

static const char *
default_text(const struct setting *t)
{
    return t->value ? t->value : t->derived;
}

int
settings_sample(struct buf *out)
{
    (void)buf_puts(out,
                   "# husk.conf: KEY=value lines, the same as systemd's and Docker's environment "
                   "files.\n"
                   "# A SANDBOX_... variable of the environment wins over this file. A duration "
                   "without a\n"
                   "# unit is seconds (500ms, 30s, 15min, 24h, 30 days); a size without one is "
                   "bytes\n"
                   "# (512k, 25MiB, 4GiB). What stands behind a # is the default.\n"
                   "# Made by `huskctl config --sample`.\n");
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *t = &setting_table[i];
        if (t->section)
            (void)buf_printf(out, "\n# ---- %s ----\n", t->section);
        (void)buf_putc(out, '\n');
        wrap(out, "# ", t->help);
        (void)buf_puts(out, "# (");
        setting_range(t, out);
        if (!t->value)
            (void)buf_printf(out, "; by default %s", t->derived);
        (void)buf_printf(out, ")\n#%s=%s\n", t->key, t->value ? t->value : "");
    }
    return out->failed ? -1 : 0;
}

int
settings_markdown(struct buf *out)
{
    (void)buf_puts(out,
                   "# Settings\n\n"
                   "Made by `huskctl config --markdown` from the table in "
                   "`src/conf/settings_table.c`.\n\n"
                   "Programs read `/etc/husk/husk.conf` (or `--config FILE`, or the file named by "
                   "`HUSK_CONFIG`), then the environment, which wins. The file holds `KEY=value` "
                   "lines: what follows the first `=` is taken literally, but for blanks around it "
                   "and one pair of matching single or double quotes; lines that begin with `#` "
                   "are comments. Where a key is set twice the last one counts. An unknown or "
                   "malformed setting stops the start with file and line.\n\n"
                   "A duration without a unit is seconds (`500ms`, `30s`, `15min`, `24h`, `30 "
                   "days`); a size without one is bytes (`512k`, `25MiB`, `4GiB`: powers of "
                   "1024).\n");
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *t = &setting_table[i];
        if (t->section)
            (void)buf_printf(
                out, "\n## %s\n\n| setting | default | values | what |\n|---|---|---|---|\n",
                t->section);
        const char *value = default_text(t);
        (void)buf_printf(out, "| `%s` | ", t->key);
        (void)buf_printf(out, value[0] ? "`%s`" : "(empty)%s", value);
        (void)buf_puts(out, " | ");
        setting_range(t, out);
        (void)buf_printf(out, " | %s%s |\n", t->help,
                         t->secret ? " A secret: masked in every output." : "");
    }
    return out->failed ? -1 : 0;
}

/* roff: a line must not begin with a dot, a hyphen is written \-. */
static void
roff(struct buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '-' || *p == '\\')
            (void)buf_putc(out, '\\');
        (void)buf_putc(out, *p);
    }
}

int
settings_man(struct buf *out)
{
    (void)buf_puts(out,
                   ".TH HUSK.CONF 5\n.SH NAME\nhusk.conf \\- settings of husk\n.SH DESCRIPTION\n"
                   "KEY=value lines. The environment wins over the file. A duration without a unit "
                   "is seconds, a size without one is bytes.\n");
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *t = &setting_table[i];
        if (t->section)
            (void)buf_printf(out, ".SS %s\n", t->section);
        (void)buf_printf(out, ".TP\n.B %s\n", t->key);
        roff(out, t->help);
        (void)buf_puts(out, " Values: ");
        setting_range(t, out);
        const char *value = default_text(t);
        (void)buf_puts(out, ". Default: ");
        roff(out, value[0] ? value : "empty");
        (void)buf_puts(out, ".\n");
    }
    return out->failed ? -1 : 0;
}
