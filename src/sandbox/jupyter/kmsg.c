/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/kmsg.h"

#include <string.h>

#include "sandbox/jupyter/kmsg_private.h"
#include "base/utf8.h"

struct name {
    const char *name;
    int value;
};

static const struct name types[] = {
    {"stream", KMSG_STREAM},
    {"display_data", KMSG_DISPLAY_DATA},
    {"update_display_data", KMSG_UPDATE_DISPLAY_DATA},
    {"execute_result", KMSG_EXECUTE_RESULT},
    {"clear_output", KMSG_CLEAR_OUTPUT},
    {"error", KMSG_ERROR},
    {"status", KMSG_STATUS},
    {"execute_reply", KMSG_EXECUTE_REPLY},
    {"kernel_info_reply", KMSG_KERNEL_INFO_REPLY},
    {"input_request", KMSG_INPUT_REQUEST},
    {NULL, KMSG_OTHER},
};

static const struct name channels[] = {
    {"shell", KMSG_SHELL},     {"iopub", KMSG_IOPUB},        {"stdin", KMSG_STDIN},
    {"control", KMSG_CONTROL}, {NULL, KMSG_CHANNEL_UNKNOWN},
};

static const struct name streams[] = {
    {"stdout", KMSG_STDOUT},
    {"stderr", KMSG_STDERR},
    {NULL, KMSG_STREAM_OTHER},
};

static const struct name states[] = {
    {"starting", KMSG_STATE_STARTING}, {"busy", KMSG_STATE_BUSY},
    {"idle", KMSG_STATE_IDLE},         {"restarting", KMSG_STATE_RESTARTING},
    {"dead", KMSG_STATE_DEAD},         {"autorestarting", KMSG_STATE_RESTARTING},
    {NULL, KMSG_STATE_UNKNOWN},
};

/* The value of a name (NULL: none); the last entry's if it is not in the table. */
static int
find_name(const struct name *table, const char *s)
{
    while (table->name && (!s || strcmp(table->name, s) != 0))
        table++;
    return table->value;
}

enum kmsg_type
kmsg_type_find(const char *name)
{
    return (enum kmsg_type)find_name(types, name);
}

enum kmsg_stream
kmsg_stream_find(const char *name)
{
    return (enum kmsg_stream)find_name(streams, name);
}

void
kmsg_copy_field(char *dst, size_t max, const char *p, size_t n)
{
    size_t k;

    if (!p || !utf8_valid(p, n))
        n = 0;
    k = n > max ? utf8_cut(p, max) : n;
    if (k > 0)
        memcpy(dst, p, k);
    dst[k] = '\0';
}

static void
copy_member(char *dst, size_t max, json_val object, const char *name)
{
    size_t n = 0;
    const char *p = json_string(json_member(object, name), &n);

    kmsg_copy_field(dst, max, p, n);
}

bool
kmsg_from_json(json_val root, struct kmsg *ret)
{
    json_val header = json_member(root, "header");
    json_val parent = json_member(root, "parent_header");
    json_val content = json_member(root, "content");
    json_val metadata = json_member(root, "metadata");

    memset(ret, 0, sizeof(*ret));
    copy_member(ret->head.type_name, KMSG_TYPE_NAME_MAX, header, "msg_type");
    if (ret->head.type_name[0] == '\0')
        return false;
    ret->head.type = kmsg_type_find(ret->head.type_name);
    copy_member(ret->head.session, KMSG_ID_MAX, header, "session");
    copy_member(ret->head.parent_id, KMSG_ID_MAX, parent, "msg_id");
    ret->channel =
        (enum kmsg_channel)find_name(channels, json_cstring(json_member(root, "channel")));
    ret->content = json_type(content) == JSON_OBJECT ? content : NULL;
    ret->metadata = json_type(metadata) == JSON_OBJECT ? metadata : NULL;
    return true;
}

bool
kmsg_is_for(const struct kmsg_head *h, const char *msg_id)
{
    return msg_id[0] != '\0' && strcmp(h->parent_id, msg_id) == 0;
}

enum kmsg_state
kmsg_execution_state(const struct kmsg *m)
{
    const char *s = json_cstring(json_member(m->content, "execution_state"));

    if (m->head.type != KMSG_STATUS)
        return KMSG_STATE_UNKNOWN;
    return (enum kmsg_state)find_name(states, s);
}
