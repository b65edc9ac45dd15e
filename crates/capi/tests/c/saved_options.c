/* Saves options that a family corrects, and other readers as well. The first argument is the
   file. */
#include <tidesdb/tidesdb.h>

#include "check.h"

int main(int count, char **arguments)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config(), loaded;

    CHECK(count == 2);
    config.write_buffer_size = 1;
    config.level_size_ratio = 1;
    config.klog_value_threshold = 0;
    config.index_sample_ratio = 0;
    config.block_index_prefix_len = 1;
    config.l1_file_count_trigger = 1;
    config.l0_queue_stall_threshold = -1;
    config.bloom_fpr = 1e-9;
    config.tombstone_density_trigger = 2.0;
    config.use_btree = 5;
    config.skip_list_probability = 1.0f / 3;
    config.sync_mode = TDB_SYNC_FULL;
    CHECK_OK(tidesdb_cf_config_save_to_ini(arguments[1], "f", &config));
    CHECK_OK(tidesdb_cf_config_load_from_ini(arguments[1], "f", &loaded));
    /* As they were given, whatever a family would make of them. */
    CHECK(loaded.write_buffer_size == 1 && loaded.level_size_ratio == 1);
    CHECK(loaded.klog_value_threshold == 0 && loaded.index_sample_ratio == 0);
    CHECK(loaded.block_index_prefix_len == 1 && loaded.l1_file_count_trigger == 1);
    CHECK(loaded.l0_queue_stall_threshold == -1 && loaded.use_btree == 5);
    CHECK(loaded.tombstone_density_trigger == 2.0 && loaded.bloom_fpr == 1e-9);
    CHECK(loaded.skip_list_probability == 1.0f / 3 && loaded.sync_mode == TDB_SYNC_FULL);
    CHECK(loaded.min_disk_space == config.min_disk_space);
    puts("all checks hold");
    return 0;
}
