// SPDX-License-Identifier: GPL-2.0-or-later
/* The gate and whom it lets through: the control map and the targets. */
#include <errno.h>
#include <string.h>
#include <bpf/bpf.h>

#include "attach/engine_priv.h"
#include "core/err.h"
#include "core/mem.h"

static int control_get(struct sonde_engine *e, struct sonde_control *c)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(e->maps.control, &zero, c) ? -errno : 0;
}

static int control_set(struct sonde_engine *e, const struct sonde_control *c)
{
	uint32_t zero = 0;

	if (bpf_map_update_elem(e->maps.control, &zero, c, BPF_ANY))
		return sonde_err(errno, "cannot change the control map: %s", strerror(errno));
	return 0;
}

static int set_ready(struct sonde_engine *e, uint32_t ready)
{
	struct sonde_control c;
	int err = control_get(e, &c);

	if (err)
		return sonde_err(err, "cannot read the control map: %s", strerror(-err));
	c.ready = ready;
	return control_set(e, &c);
}

int sonde_engine_activate(struct sonde_engine *e)
{
	return set_ready(e, 1);
}

int sonde_engine_pause(struct sonde_engine *e)
{
	return set_ready(e, 0);
}

int sonde_engine_control(struct sonde_engine *e, const struct sonde_control *control)
{
	struct sonde_control old, c = *control;
	int err = control_get(e, &old);

	if (err)
		return sonde_err(err, "cannot read the control map: %s", strerror(-err));
	c.ready = old.ready;
	return control_set(e, &c);
}

int sonde_engine_target_add(struct sonde_engine *e, uint32_t tgid, uint32_t index)
{
	struct sonde_target_slot slot = {.index = index};
	size_t i;
	int err;

	err = SONDE_GROW(e->targets, e->n_targets, e->cap_targets);
	if (err)
		return err;
	if (bpf_map_update_elem(e->maps.targets, &tgid, &slot, BPF_ANY))
		return sonde_err(errno, "cannot observe process %u: %s; at most %d at once", tgid,
				 strerror(errno), SONDE_MAX_TARGETS);
	for (i = 0; i < e->n_targets; i++)
		if (e->targets[i] == tgid)
			return 0;
	e->targets[e->n_targets++] = tgid;
	return 0;
}

int sonde_engine_target_del(struct sonde_engine *e, uint32_t tgid)
{
	for (size_t i = 0; i < e->n_targets; i++)
		if (e->targets[i] == tgid)
			e->targets[i--] = e->targets[--e->n_targets];
	/* A child that the kernel side added by itself is not in our list. */
	if (bpf_map_delete_elem(e->maps.targets, &tgid) && errno != ENOENT)
		return sonde_err(errno, "cannot let go of process %u: %s", tgid, strerror(errno));
	return 0;
}
