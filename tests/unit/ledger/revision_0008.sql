-- A ledger of revision 0008, as version 0.1 had it: one batch committed, one being processed for the second time.
-- TIMESTAMP stands for the type of each database.
CREATE TABLE tidegate_schema (version_num VARCHAR(32) NOT NULL, CONSTRAINT tidegate_schema_pkc PRIMARY KEY (version_num));
CREATE TABLE tidegate_ledger (identity VARCHAR(32) NOT NULL, PRIMARY KEY (identity));
CREATE TABLE tidegate_subscriptions (name VARCHAR(250) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (name));
CREATE TABLE tidegate_batches (
    id VARCHAR(64) NOT NULL,
    subscription VARCHAR(250) NOT NULL,
    number BIGINT NOT NULL,
    opening INTEGER NOT NULL,
    group_id TEXT NOT NULL,
    receipt TEXT NOT NULL,
    members INTEGER NOT NULL,
    output TEXT NOT NULL,
    partition_by JSON NOT NULL,
    state VARCHAR(20) NOT NULL,
    reason TEXT,
    winner VARCHAR(32),
    attempt TEXT,
    rows BIGINT,
    rejected BIGINT,
    opened_at TIMESTAMP NOT NULL,
    landed_at TIMESTAMP,
    closed_at TIMESTAMP,
    commit_strategy VARCHAR(20) DEFAULT 'after-processing' NOT NULL,
    since TIMESTAMP,
    offsets_committed BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (subscription) REFERENCES tidegate_subscriptions (name)
);
CREATE TABLE tidegate_redrives (
    token VARCHAR(32) NOT NULL,
    "after" VARCHAR(32) NOT NULL,
    topic VARCHAR(250) NOT NULL,
    topic_id VARCHAR(64) NOT NULL,
    subscription VARCHAR(250) NOT NULL,
    redriven_by TEXT NOT NULL,
    state VARCHAR(20) NOT NULL,
    noted_at TIMESTAMP NOT NULL,
    closed_at TIMESTAMP,
    PRIMARY KEY (token)
);
CREATE TABLE tidegate_checkpoints (
    subscription VARCHAR(250) NOT NULL,
    group_id TEXT NOT NULL,
    topic VARCHAR(250) NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    metadata TEXT NOT NULL,
    leader_epoch INTEGER,
    committed_at TIMESTAMP NOT NULL,
    PRIMARY KEY (subscription, group_id, topic, partition)
);
CREATE TABLE tidegate_clearances (
    batch_id VARCHAR(64) NOT NULL,
    number INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    answer VARCHAR(20) NOT NULL,
    cleared_by TEXT NOT NULL,
    cleared_at TIMESTAMP NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (batch_id, number),
    FOREIGN KEY (batch_id) REFERENCES tidegate_batches (id)
);
CREATE TABLE tidegate_deliveries (
    token VARCHAR(32) NOT NULL,
    batch_id VARCHAR(64) NOT NULL,
    number INTEGER NOT NULL,
    opening INTEGER NOT NULL,
    started_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP,
    outcome VARCHAR(20),
    reason TEXT,
    PRIMARY KEY (token),
    FOREIGN KEY (batch_id) REFERENCES tidegate_batches (id),
    CONSTRAINT tidegate_deliveries_number UNIQUE (batch_id, number)
);
CREATE TABLE tidegate_files (
    batch_id VARCHAR(64) NOT NULL,
    member INTEGER NOT NULL,
    place INTEGER NOT NULL,
    uri TEXT NOT NULL,
    records BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (batch_id, member, place),
    FOREIGN KEY (batch_id) REFERENCES tidegate_batches (id)
);
CREATE TABLE tidegate_landings (
    batch_id VARCHAR(64) NOT NULL,
    member INTEGER NOT NULL,
    reported_at TIMESTAMP NOT NULL,
    PRIMARY KEY (batch_id, member),
    FOREIGN KEY (batch_id) REFERENCES tidegate_batches (id)
);
CREATE TABLE tidegate_losses (
    subscription VARCHAR(250) NOT NULL,
    topic VARCHAR(250) NOT NULL,
    partition INTEGER NOT NULL,
    position BIGINT NOT NULL,
    earliest BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    noted_at TIMESTAMP NOT NULL,
    PRIMARY KEY (subscription, topic, partition, position)
);
CREATE TABLE tidegate_missing (
    subscription VARCHAR(250) NOT NULL,
    topic TEXT NOT NULL,
    noted_at TIMESTAMP NOT NULL,
    PRIMARY KEY (subscription, topic)
);
CREATE TABLE tidegate_operations (
    run TEXT NOT NULL,
    operated_by TEXT NOT NULL,
    begun_at TIMESTAMP NOT NULL,
    PRIMARY KEY (run)
);
CREATE TABLE tidegate_positions (
    subscription VARCHAR(250) NOT NULL,
    group_id TEXT NOT NULL,
    topic VARCHAR(250) NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    version BIGINT NOT NULL,
    committed_at TIMESTAMP NOT NULL,
    PRIMARY KEY (subscription, group_id, topic, partition)
);
CREATE TABLE tidegate_ranges (
    batch_id VARCHAR(64) NOT NULL,
    topic VARCHAR(250) NOT NULL,
    partition INTEGER NOT NULL,
    place INTEGER NOT NULL,
    member INTEGER,
    start_offset BIGINT NOT NULL,
    planned_end BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    records BIGINT,
    start_epoch INTEGER,
    end_epoch INTEGER,
    PRIMARY KEY (batch_id, topic, partition),
    FOREIGN KEY (batch_id) REFERENCES tidegate_batches (id)
);
CREATE TABLE tidegate_redriven (
    token VARCHAR(32) NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    destination VARCHAR(250) NOT NULL,
    PRIMARY KEY (token, partition, "offset"),
    FOREIGN KEY (token) REFERENCES tidegate_redrives (token)
);
CREATE TABLE tidegate_redriving (
    topic VARCHAR(250) NOT NULL,
    turn BIGINT NOT NULL,
    PRIMARY KEY (topic)
);
CREATE TABLE tidegate_states (
    subscription VARCHAR(250) NOT NULL,
    group_id TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    state TEXT,
    since TIMESTAMP,
    PRIMARY KEY (subscription, group_id)
);
CREATE TABLE tidegate_topics (
    subscription VARCHAR(250) NOT NULL,
    topic VARCHAR(250) NOT NULL,
    topic_id VARCHAR(64) NOT NULL,
    PRIMARY KEY (subscription, topic)
);
CREATE UNIQUE INDEX tidegate_batches_history ON tidegate_batches (subscription, number);
CREATE UNIQUE INDEX tidegate_batches_open ON tidegate_batches (subscription) WHERE closed_at IS NULL;
CREATE INDEX tidegate_redrives_topic ON tidegate_redrives (topic, state);
CREATE INDEX tidegate_redriven_place ON tidegate_redriven ("offset", partition);
CREATE INDEX tidegate_batches_committed ON tidegate_batches (subscription, number) WHERE offsets_committed = true;
INSERT INTO tidegate_schema VALUES ('0008');
INSERT INTO tidegate_ledger VALUES ('0123456789abcdef0123456789abcdef');
INSERT INTO tidegate_subscriptions VALUES ('flights', 12);
INSERT INTO tidegate_batches VALUES ('b1', 'flights', 1, 1, 'g', 'tidegate1 inc - 0', 1, 'file:///lake/flights', '["carrier"]', 'committed', NULL, 't1', 'a1', 7, 1, '2024-05-01 12:00:00', '2024-05-01 12:00:00', '2024-05-01 12:00:00', 'after-processing', NULL, true);
INSERT INTO tidegate_batches VALUES ('b2', 'flights', 8, 1, 'g', 'tidegate1 inc b1 1', 2, 'file:///lake/flights', '["carrier"]', 'processing', NULL, NULL, NULL, NULL, NULL, '2024-05-01 12:00:00', '2024-05-01 12:00:00', NULL, 'after-processing', NULL, false);
INSERT INTO tidegate_deliveries VALUES ('t1', 'b1', 1, 1, '2024-05-01 12:00:00', '2024-05-01 12:00:00', 'processed', NULL);
INSERT INTO tidegate_deliveries VALUES ('t2', 'b2', 1, 1, '2024-05-01 12:00:00', '2024-05-01 12:00:00', 'failed', 'no memory');
INSERT INTO tidegate_deliveries VALUES ('t3', 'b2', 2, 1, '2024-05-01 12:00:00', NULL, NULL, NULL);
INSERT INTO tidegate_files VALUES ('b1', 0, 0, 'file:///landing/b1.parquet', 8, 80);
INSERT INTO tidegate_files VALUES ('b2', 0, 0, 'file:///landing/b2-0.parquet', 12, 120);
INSERT INTO tidegate_files VALUES ('b2', 1, 0, 'file:///landing/b2-1.parquet', 4, 40);
INSERT INTO tidegate_landings VALUES ('b1', 0, '2024-05-01 12:00:00');
INSERT INTO tidegate_landings VALUES ('b2', 0, '2024-05-01 12:00:00');
INSERT INTO tidegate_landings VALUES ('b2', 1, '2024-05-01 12:00:00');
INSERT INTO tidegate_missing VALUES ('flights', 'gates', '2024-05-01 12:00:00');
INSERT INTO tidegate_ranges VALUES ('b1', 't', 0, 0, 0, 0, 10, 8, 8, NULL, NULL);
INSERT INTO tidegate_ranges VALUES ('b2', 't', 0, 0, 0, 8, 20, 20, 12, NULL, NULL);
INSERT INTO tidegate_ranges VALUES ('b2', 't', 1, 1, 1, 0, 5, 5, 4, NULL, NULL);
