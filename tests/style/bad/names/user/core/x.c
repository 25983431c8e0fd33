// SPDX-License-Identifier: GPL-2.0-or-later
static int _count;
