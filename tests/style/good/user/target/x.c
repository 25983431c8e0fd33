// SPDX-License-Identifier: GPL-2.0-or-later
#include <Zydis/Zydis.h>
#include <elfutils/libdwfl.h>
#include <libelf.h>
