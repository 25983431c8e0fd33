// SPDX-License-Identifier: GPL-2.0-or-later
#include <bpf/bpf.h>
#include <elf.h>
#include "attach/hook.h"
#include "x.skel.h"
