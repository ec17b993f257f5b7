/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/kmsg.h"

#include "base/clock.h"
#include "json/writer.h"

#include <string.h>

/* Opens the message and its content; finish_request closes both. */
static void
begin_request(struct json_writer *w, struct buf *out, const char *msg_type, const char *session,
              char ret_id[ID_UUID_SIZE])
{
    id_uuid4(ret_id);
    jw_init(w, out);
    jw_object(w, NULL);
    jw_object(w, "header");
    jw_string(w, "msg_id", ret_id);
    jw_string(w, "msg_type", msg_type);
    jw_string(w, "username", "husk");
    jw_string(w, "session", session);
    jw_time(w, "date", clock_wall_ms());
    jw_string(w, "version", "5.3");
    jw_end_object(w);
    jw_object(w, "parent_header");
    jw_end_object(w);
    jw_object(w, "metadata");
    jw_end_object(w);
    jw_object(w, "content");
}

static int
finish_request(struct json_writer *w, struct buf *out, struct err *err)
{
    jw_end_object(w);
    jw_array(w, "buffers");
    jw_end_array(w);
    jw_string(w, "channel", "shell");
    jw_end_object(w);
    return buf_check(out, "a message to the kernel", err);
}

int
kmsg_execute_request(struct buf *out, const char *session, const struct kmsg_execute *x,
                     char ret_id[ID_UUID_SIZE], struct err *err)
{
    struct json_writer w;

    begin_request(&w, out, "execute_request", session, ret_id);
    jw_string_n(&w, "code", x->code, x->code_len);
    jw_bool(&w, "silent", x->silent);
    jw_bool(&w, "store_history", x->store_history);
    if (x->user_expressions) {
        jw_raw(&w, "user_expressions", x->user_expressions, strlen(x->user_expressions));
    } else {
        jw_object(&w, "user_expressions");
        jw_end_object(&w);
    }
    jw_bool(&w, "allow_stdin", x->allow_stdin);
    jw_bool(&w, "stop_on_error", x->stop_on_error);
    return finish_request(&w, out, err);
}

int
kmsg_kernel_info_request(struct buf *out, const char *session, char ret_id[ID_UUID_SIZE],
                         struct err *err)
{
    struct json_writer w;

    begin_request(&w, out, "kernel_info_request", session, ret_id);
    return finish_request(&w, out, err);
}
