/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _SONDE_Y 1
