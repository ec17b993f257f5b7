/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_NOTIFY_H
#define HUSK_BASE_NOTIFY_H

/* Lines to the service manager ($NOTIFY_SOCKET, sd_notify(3)), such as "READY=1"; nothing without
 * one. What goes wrong is logged. */
void notify_state(const char *state);

#endif
