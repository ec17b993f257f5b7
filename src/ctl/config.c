/* SPDX-License-Identifier: MIT */
#include "ctl/ctl.h"

#include "ctl/nginx_conf.h"

/* All settings by their keys, as the text that the file would hold. */
static int
config_json(struct ctl *c)
{
    struct buf value = BUF_INIT(CTL_OUT_MAX);
    struct json_writer w;
    jw_init(&w, &c->out);
    jw_object(&w, NULL);
    for (size_t i = 0; settings_key(i); i++) {
        buf_clear(&value);
        if (settings_get(&c->settings, settings_key(i), &value))
            jw_string(&w, settings_key(i), buf_str(&value));
    }
    jw_end_object(&w);
    buf_done(&value);
    return buf_putc(&c->out, '\n');
}

static int
run_config(struct ctl *c, struct err *err)
{
    int kinds = !!ctl_value(c, "sample") + !!ctl_value(c, "markdown") + !!ctl_value(c, "man") +
                !!ctl_value(c, "nginx") + !!ctl_value(c, "json");
    if (kinds > 1)
        return err_set(err, ERR_INVALID,
                       "--json, --sample, --markdown, --man and --nginx exclude another");
    if (ctl_value(c, "json"))
        return config_json(c);
    if (ctl_value(c, "sample"))
        return settings_sample(&c->out);
    if (ctl_value(c, "markdown"))
        return settings_markdown(&c->out);
    if (ctl_value(c, "man"))
        return settings_man(&c->out);
    if (ctl_value(c, "nginx"))
        return nginx_conf(&c->settings, ctl_value(c, "nginx-user"), &c->out);
    return settings_dump(&c->settings, &c->out);
}

static const struct ctl_option options[] = {
    {"json", NULL, "as one JSON object"},
    {"sample", NULL, "a commented sample of the settings file"},
    {"markdown", NULL, "the settings as a document"},
    {"man", NULL, "the settings as a manual page"},
    {"nginx", NULL, "the whole configuration of nginx"},
    {"nginx-user", "USER", "with --nginx: the user directive, for an nginx started by root"},
    {NULL, NULL, NULL},
};

const struct ctl_command config_commands[] = {
    {"config", NULL, "Show the effective settings, secrets masked", options, run_config},
    {NULL, NULL, NULL, NULL, NULL},
};
