/* SPDX-License-Identifier: MIT */
#ifndef HUSK_CTL_NGINX_CONF_H
#define HUSK_CTL_NGINX_CONF_H

#include "base/buf.h"
#include "conf/settings.h"

/*
 * A whole nginx.conf for these settings: the four lanes as upstreams, routing by method and path,
 * the service's own limits and time-outs, errors of nginx's own as problem+json.  To be used with
 * `nginx -p PREFIX -c FILE`: pid file, access log and temporary files lie in PREFIX.
 * nginx_user: for the `user` directive when nginx is started by root; NULL leaves it out.
 * 0, or -1 when it does not fit.
 */
int nginx_conf(const struct settings *s, const char *nginx_user, struct buf *out);

#endif
