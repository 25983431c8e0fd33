// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The programs of fault.bpf.c under the same names, with call stacks. An object of its own, since
 * kernels before 5.17 know no bpf_loop() and would refuse programs that merely contain one; and so
 * that counting without stacks pays nothing for them.
 */
#define SONDE_FAULT_STACKS 1
#include "fault.bpf.c"
