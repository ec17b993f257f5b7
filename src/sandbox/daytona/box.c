/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/box.h"

#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "json/writer.h"

#define KEY_LABEL "docsgpt_session_id" /* the name the system this descends from gave it */
#define DEPLOYMENT_LABEL "husk_deployment"

static const struct {
    const char *name;
    enum box_state state;
} states[] = {
    {"started", BOX_STARTED},  {"stopped", BOX_STOPPED},     {"paused", BOX_STOPPED},
    {"error", BOX_BROKEN},     {"build_failed", BOX_BROKEN}, {"archived", BOX_BROKEN},
    {"archiving", BOX_BROKEN}, {"destroyed", BOX_ENDED},     {"destroying", BOX_ENDED},
    {"deleted", BOX_ENDED},
};

/* By the name the API uses; one that is not known is BOX_MOVING. */
static enum box_state
box_state_of(const char *name)
{
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (strcmp(states[i].name, name) == 0)
            return states[i].state;
    return BOX_MOVING;
}

/* A string that fits, else "". */
static void
copy_text(char *dst, size_t size, json_val v)
{
    const char *s = json_cstring(v);

    (void)snprintf(dst, size, "%s", s != NULL && strlen(s) < size ? s : "");
}

bool
box_read(struct box *ret, json_val v)
{
    memset(ret, 0, sizeof *ret);
    copy_text(ret->id, sizeof ret->id, json_member(v, "id"));
    copy_text(ret->key, sizeof ret->key, json_member(json_member(v, "labels"), KEY_LABEL));
    copy_text(ret->state_name, sizeof ret->state_name, json_member(v, "state"));
    copy_text(ret->toolbox, sizeof ret->toolbox, json_member(v, "toolboxProxyUrl"));
    ret->state = box_state_of(ret->state_name);
    /* It becomes part of paths. */
    return id_in_alphabet(ret->id, strlen(ret->id), 1, HANDLE_MAX);
}

static void
write_labels(struct json_writer *w, const char *deployment, const char *key)
{
    jw_string(w, DEPLOYMENT_LABEL, deployment);
    if (key != NULL)
        jw_string(w, KEY_LABEL, key);
}

void
box_labels(struct buf *out, const char *deployment, const char *key)
{
    struct json_writer w;

    jw_init(&w, out);
    jw_object(&w, NULL);
    write_labels(&w, deployment, key);
    jw_end_object(&w);
}

static bool
label_is(json_val labels, const char *name, const char *value)
{
    const char *s = json_cstring(json_member(labels, name));

    return s != NULL && strcmp(s, value) == 0;
}

bool
box_is_of(json_val v, const char *deployment, const char *key)
{
    json_val labels = json_member(v, "labels");

    return json_type(labels) != JSON_OBJECT || (label_is(labels, DEPLOYMENT_LABEL, deployment) &&
                                                (key == NULL || label_is(labels, KEY_LABEL, key)));
}

static void
write_given(struct json_writer *w, const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0')
        jw_string(w, name, value);
}

void
box_request(struct buf *out, const struct sandbox_options *o, const char *key)
{
    struct json_writer w;

    jw_init(&w, out);
    jw_object(&w, NULL);
    write_given(&w, "snapshot", o->daytona_snapshot);
    write_given(&w, "target", o->daytona_target);
    jw_object(&w, "env");
    jw_end_object(&w);
    jw_object(&w, "labels");
    write_labels(&w, o->deployment, key);
    write_given(&w, "code-toolbox-language", o->daytona_language);
    jw_end_object(&w);
    jw_i64(&w, "autoStopInterval", o->daytona_auto_stop_min);
    jw_i64(&w, "autoDeleteInterval", o->daytona_auto_delete_min);
    jw_end_object(&w);
}
