// SPDX-License-Identifier: GPL-2.0-or-later
/* Walks the tables of features and link kinds: every row is filled, every name is found again. */
#include "unit/unit.h"

#include "attach/feature.h"
#include "attach/link.h"

static void test_every_row_is_filled(void **state)
{
	(void)state;
	for (int i = 0; i < SONDE_FEAT__MAX; i++) {
		enum sonde_feature f = (enum sonde_feature)i;

		assert_true(strlen(sonde_feature_name(f)) > 0);
		assert_true(strlen(sonde_feature_what(f)) > 0);
		assert_true(strlen(sonde_feature_since(f)) > 0);
		assert_true(strlen(sonde_feature_remedy(f)) > 0);
		assert_int_equal(sonde_feature_find(sonde_feature_name(f)), i);
	}
	assert_int_equal(sonde_feature_find("no such feature"), -1);
	assert_string_equal(sonde_feature_name(SONDE_FEAT_NONE), "none");
}

static void test_answers(void **state)
{
	(void)state;
	assert_string_equal(sonde_answer_name(SONDE_YES), "yes");
	assert_string_equal(sonde_answer_name(SONDE_NO), "no");
	assert_string_equal(sonde_answer_name(SONDE_DENIED), "denied");
	assert_string_equal(sonde_answer_name((enum sonde_answer)99), "unknown");
}

/* Whoever runs this, every feature gets one of the three answers, and an errno with all but "yes".
 */
static void test_probe_answers_all(void **state)
{
	struct sonde_features f;

	(void)state;
	memset(&f, 0xff, sizeof(f));
	sonde_features_probe(&f);
	for (int i = 0; i < SONDE_FEAT__MAX; i++) {
		assert_string_not_equal(sonde_answer_name(f.have[i]), "unknown");
		assert_int_equal(f.have[i] == SONDE_YES, f.err[i] == 0);
		assert_true(f.err[i] >= 0);
	}
}

/* "Use a newer kernel" is wrong advice where only the kernel's types are missing. */
static void test_typeless(void **state)
{
	struct sonde_features f = {};

	(void)state;
	for (int i = 0; i < SONDE_FEAT__MAX; i++)
		f.have[i] = SONDE_YES;
	f.have[SONDE_FEAT_SK_STORAGE] = f.have[SONDE_FEAT_UPROBE_MULTI] = SONDE_NO;
	assert_non_null(strstr(sonde_features_advice(&f, SONDE_FEAT_SK_STORAGE), "5.11"));
	f.have[SONDE_FEAT_BTF] = SONDE_NO;
	assert_true(sonde_features_typeless(&f, SONDE_FEAT_SK_STORAGE));
	assert_null(strstr(sonde_features_advice(&f, SONDE_FEAT_SK_STORAGE), "5.11"));
	assert_false(sonde_features_typeless(&f, SONDE_FEAT_UPROBE_MULTI));
	assert_non_null(strstr(sonde_features_advice(&f, SONDE_FEAT_BTF), "DEBUG_INFO_BTF"));
	f.have[SONDE_FEAT_SK_STORAGE] = SONDE_DENIED;
	assert_false(sonde_features_typeless(&f, SONDE_FEAT_SK_STORAGE));
}

static void test_link_kinds(void **state)
{
	(void)state;
	for (int i = 0; i < SONDE_LINK__MAX; i++) {
		enum sonde_link_kind k = (enum sonde_link_kind)i, ret = sonde_link_return_of(k);

		assert_non_null(sonde_link_kind_name(k));
		assert_int_equal(sonde_link_is_uprobe(k), sonde_link_family(k) != NULL);
		assert_int_equal(sonde_link_feature(k) == SONDE_FEAT_NONE, k == SONDE_LINK_NONE);
		if (ret) {
			assert_false(sonde_link_is_return(k));
			assert_true(sonde_link_is_return(ret));
			assert_string_equal(sonde_link_family(k), sonde_link_family(ret));
			assert_int_equal(sonde_link_attach_type(k), sonde_link_attach_type(ret));
		}
	}
	assert_string_equal(sonde_link_kind_name(SONDE_LINK__MAX), "unknown");
	assert_int_equal(sonde_link_attach_type(SONDE_LINK_UPROBE_MULTI), 48);
	assert_int_equal(sonde_link_attach_type(SONDE_LINK_UPROBE_SESSION), 57);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row_is_filled),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_probe_answers_all),
		cmocka_unit_test(test_typeless),
		cmocka_unit_test(test_link_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
