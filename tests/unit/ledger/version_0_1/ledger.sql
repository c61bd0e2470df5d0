-- The ledger of version 0.1 (revision 0008), written by its own code: a batch [0, 5) that is committed and an open one [5, 8)
-- for each subscription, which is called after the state of the latter; received is on-receipt and landed, with offsets committed.
BEGIN TRANSACTION;
CREATE TABLE "tidegate_batches" (
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
	opened_at DATETIME NOT NULL, 
	landed_at DATETIME, 
	closed_at DATETIME, 
	commit_strategy VARCHAR(20) DEFAULT 'after-processing' NOT NULL, 
	since DATETIME, 
	offsets_committed BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(subscription) REFERENCES tidegate_subscriptions (name)
);
INSERT INTO "tidegate_batches" VALUES('ba668ef7dbb338dad333d','planned',1,1,'planned-lake','tidegate1 476a06bc0c924fbb - 0',1,'file:///lake/orders','[]','committed',NULL,'68646f24fa4e47e887d7120700dcf4b0','4a92c6ebfec64a37805f90c1a842b63d',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b1e8e8c87445d50b59109','planned',7,1,'planned-lake','tidegate1 476a06bc0c924fbb ba668ef7dbb338dad333d 1',1,'file:///lake/orders','[]','planned',NULL,NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000',NULL,NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('beca1bcc42cabe7da7629','landed',1,1,'landed-lake','tidegate1 95c158415c8b4d5a - 0',1,'file:///lake/orders','[]','committed',NULL,'afa5a308949a430abcca6b59632901de','1b5c732c5d4743a1936c25ff06c34a1a',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b694f6098383dffa41f2c','landed',7,1,'landed-lake','tidegate1 95c158415c8b4d5a beca1bcc42cabe7da7629 1',1,'file:///lake/orders','[]','landed',NULL,NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('b4330256d231d38c4a7bf','processing',1,1,'processing-lake','tidegate1 5483e6cbd8504f7e - 0',1,'file:///lake/orders','[]','committed',NULL,'73c98e89441c4466a4d0dfb3114062fd','406447bec8824271a67f4c2ca8c14ac5',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('bc74b3fd9b5f941eced63','processing',7,1,'processing-lake','tidegate1 5483e6cbd8504f7e b4330256d231d38c4a7bf 1',1,'file:///lake/orders','[]','processing',NULL,NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('b4c508a7041298a660e77','processed',1,1,'processed-lake','tidegate1 c676c3220cb44c9d - 0',1,'file:///lake/orders','[]','committed',NULL,'3419384dc5f74ad595ad1a6300fa74d6','9c8bfc5668584a1194bf3154f0d8a6bb',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b2cb665a8528a967f21f4','processed',7,1,'processed-lake','tidegate1 c676c3220cb44c9d b4c508a7041298a660e77 1',1,'file:///lake/orders','[]','processed',NULL,'336729cee3174a16a58d3302ed56dc96','463a15e68c074e6c95f4b438fca2f884',3,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('b476ebddf89874c0d6d18','failed',1,1,'failed-lake','tidegate1 9c9bbe72b1ca4aa8 - 0',1,'file:///lake/orders','[]','committed',NULL,'46e58ef0daca41fdb8edb9058f47b0ab','8ff44d8203784acf98a85a1011dcf65c',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b78f8dd84ddef3a70551d','failed',7,1,'failed-lake','tidegate1 9c9bbe72b1ca4aa8 b476ebddf89874c0d6d18 1',1,'file:///lake/orders','[]','failed','subscription failed, group failed-lake, batch b78f8dd84ddef3a70551d: the job failed: no memory',NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('b88107e526af560469b2d','stopped',1,1,'stopped-lake','tidegate1 8b43f696b1ca42d7 - 0',1,'file:///lake/orders','[]','committed',NULL,'b97caacabf6d43baa70cda5dbd26b8d9','3e1d01a7ea1e43f78cc38485ad8dddde',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b0e82c872fa01e3c964ba','stopped',7,1,'stopped-lake','tidegate1 8b43f696b1ca42d7 b88107e526af560469b2d 1',1,'file:///lake/orders','[]','stopped','processing halted because the retry limit was reached at stopped-0 [5, 8): subscription stopped, group stopped-lake, batch b0e82c872fa01e3c964ba: the job failed: no memory',NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('bf0d96f92183d2c7e5b43','asking',1,1,'asking-lake','tidegate1 241dee84d00441d0 - 0',1,'file:///lake/orders','[]','committed',NULL,'510d09cc2aad41458ce2297aa88afa6c','4b9b6c503ffb46009bdf44a9d221b1f8',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('ba2f93efa94296e8d9dcd','asking',7,1,'asking-lake','tidegate1 241dee84d00441d0 bf0d96f92183d2c7e5b43 1',1,'file:///lake/orders','[]','asking','failed as often as it may at asking-0 [5, 8): subscription asking, group asking-lake, batch ba2f93efa94296e8d9dcd: the job failed: no memory',NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('b7bf538207cd5fa28ac53','ignoring',1,1,'ignoring-lake','tidegate1 bcf27fb3c7804a6f - 0',1,'file:///lake/orders','[]','committed',NULL,'74a8f750b7464c65b1172f5537db0933','4b72d43d2ced487b8d710492dc9f1bbf',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b1646efba6344950ca2b9','ignoring',7,1,'ignoring-lake','tidegate1 bcf27fb3c7804a6f b7bf538207cd5fa28ac53 1',1,'file:///lake/orders','[]','ignoring','given up after the last retry: subscription ignoring, group ignoring-lake, batch b1646efba6344950ca2b9: the job failed: no memory',NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('b2b2d8c09e28b67fea874','dead-lettering',1,1,'dead-lettering-lake','tidegate1 9a94f7c6de4447ca - 0',1,'file:///lake/orders','[]','committed',NULL,'5366318ef82f485ba9441093665e57eb','4400925c796444629c66f49c38c5b99b',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b933812f395dbdaacc417','dead-lettering',7,1,'dead-lettering-lake','tidegate1 9a94f7c6de4447ca b2b2d8c09e28b67fea874 1',1,'file:///lake/orders','[]','dead-lettering','dead-lettered to dead-letter-topic-dead-lettering after the last retry: subscription dead-lettering, group dead-lettering-lake, batch b933812f395dbdaacc417: the job failed: no memory',NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('bea99d83dc29f6a30d3c7','published',1,1,'published-lake','tidegate1 79f64b35a081424a - 0',1,'file:///lake/orders','[]','committed',NULL,'0fd301d8d7ba4057aecc49c1be8609df','9d19dfa5ad6b4c39b800610604ca3870',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b73f2db79319938d91333','published',7,1,'published-lake','tidegate1 79f64b35a081424a bea99d83dc29f6a30d3c7 1',1,'file:///lake/orders','[]','published',NULL,'7acd5341fce94c5da9a72b747c669792','376c79447b514f318574dee043d35f07',3,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('b895def6f97bfd54842c5','received',1,1,'received-lake','tidegate1 00c56cb49127471f - 0',1,'file:///lake/orders','[]','committed',NULL,'7a566fc584a448c59fe548a9ea58b6a6','37337f249cb44d3ebffa8671b9f65aa2',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b702ed9e482fd1c6bc53e','received',7,1,'received-lake','tidegate1 00c56cb49127471f b895def6f97bfd54842c5 1',1,'file:///lake/orders','[]','landed',NULL,NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'on-receipt','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b0e1f752952635d91d0df','retrying',1,1,'retrying-lake','tidegate1 a8106a0028ed4ce3 - 0',1,'file:///lake/orders','[]','committed',NULL,'a1dc493780df4db3acc8cced60fcf50c','aa8cd8f1a48b45cabd3a971172c98681',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
INSERT INTO "tidegate_batches" VALUES('b6c187643614988ed5a23','retrying',7,1,'retrying-lake','tidegate1 a8106a0028ed4ce3 b0e1f752952635d91d0df 1',1,'file:///lake/orders','[]','retrying','to be retried after the last delivery: subscription retrying, group retrying-lake, batch b6c187643614988ed5a23: the job failed: no memory',NULL,NULL,NULL,NULL,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000',NULL,'after-processing','2026-11-22 10:00:00.000000',0);
INSERT INTO "tidegate_batches" VALUES('b1e865846d204f366523d','uncommitted',1,1,'uncommitted-lake','tidegate1 365daf3c47ba491b - 0',1,'file:///lake/orders','[]','committed',NULL,'a5944e11958841fb9d0074c88e057e11','709225d94ec74fc081f9e76f8521ce6f',5,0,'2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','2026-11-22 10:00:00.000000','after-processing','2026-11-22 10:00:00.000000',1);
CREATE TABLE tidegate_checkpoints (
	subscription VARCHAR(250) NOT NULL, 
	group_id TEXT NOT NULL, 
	topic VARCHAR(250) NOT NULL, 
	partition INTEGER NOT NULL, 
	"offset" BIGINT NOT NULL, 
	metadata TEXT NOT NULL, 
	leader_epoch INTEGER, 
	committed_at DATETIME NOT NULL, 
	PRIMARY KEY (subscription, group_id, topic, partition)
);
CREATE TABLE tidegate_clearances (
	batch_id VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	deliveries INTEGER NOT NULL, 
	answer VARCHAR(20) NOT NULL, 
	cleared_by TEXT NOT NULL, 
	cleared_at DATETIME NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (batch_id, number), 
	FOREIGN KEY(batch_id) REFERENCES tidegate_batches (id)
);
CREATE TABLE tidegate_deliveries (
	token VARCHAR(32) NOT NULL, 
	batch_id VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	opening INTEGER NOT NULL, 
	started_at DATETIME NOT NULL, 
	finished_at DATETIME, 
	outcome VARCHAR(20), 
	reason TEXT, 
	PRIMARY KEY (token), 
	CONSTRAINT tidegate_deliveries_number UNIQUE (batch_id, number), 
	FOREIGN KEY(batch_id) REFERENCES tidegate_batches (id)
);
INSERT INTO "tidegate_deliveries" VALUES('68646f24fa4e47e887d7120700dcf4b0','ba668ef7dbb338dad333d',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('afa5a308949a430abcca6b59632901de','beca1bcc42cabe7da7629',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('73c98e89441c4466a4d0dfb3114062fd','b4330256d231d38c4a7bf',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('b0d4e07dd1e34bd4bf3c3edb15c947f5','bc74b3fd9b5f941eced63',1,1,'2026-01-01 08:00:00.000000',NULL,NULL,NULL);
INSERT INTO "tidegate_deliveries" VALUES('3419384dc5f74ad595ad1a6300fa74d6','b4c508a7041298a660e77',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('336729cee3174a16a58d3302ed56dc96','b2cb665a8528a967f21f4',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('46e58ef0daca41fdb8edb9058f47b0ab','b476ebddf89874c0d6d18',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('da806bc3668547848f8269e7d7727f46','b78f8dd84ddef3a70551d',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','failed','subscription failed, group failed-lake, batch b78f8dd84ddef3a70551d: the job failed: no memory');
INSERT INTO "tidegate_deliveries" VALUES('b97caacabf6d43baa70cda5dbd26b8d9','b88107e526af560469b2d',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('f87105e7e12b45c8a492c173fdaa0783','b0e82c872fa01e3c964ba',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','failed','subscription stopped, group stopped-lake, batch b0e82c872fa01e3c964ba: the job failed: no memory');
INSERT INTO "tidegate_deliveries" VALUES('510d09cc2aad41458ce2297aa88afa6c','bf0d96f92183d2c7e5b43',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('df45cc4323ba475cac3e8b8fb2c90bfe','ba2f93efa94296e8d9dcd',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','failed','subscription asking, group asking-lake, batch ba2f93efa94296e8d9dcd: the job failed: no memory');
INSERT INTO "tidegate_deliveries" VALUES('74a8f750b7464c65b1172f5537db0933','b7bf538207cd5fa28ac53',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('c5da4c5c03fe43eba7be6e67a1aac41c','b1646efba6344950ca2b9',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','failed','subscription ignoring, group ignoring-lake, batch b1646efba6344950ca2b9: the job failed: no memory');
INSERT INTO "tidegate_deliveries" VALUES('5366318ef82f485ba9441093665e57eb','b2b2d8c09e28b67fea874',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('e59ea1b4cbfb483a92a7ca3a7f8506be','b933812f395dbdaacc417',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','failed','subscription dead-lettering, group dead-lettering-lake, batch b933812f395dbdaacc417: the job failed: no memory');
INSERT INTO "tidegate_deliveries" VALUES('0fd301d8d7ba4057aecc49c1be8609df','bea99d83dc29f6a30d3c7',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('7acd5341fce94c5da9a72b747c669792','b73f2db79319938d91333',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('7a566fc584a448c59fe548a9ea58b6a6','b895def6f97bfd54842c5',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('a1dc493780df4db3acc8cced60fcf50c','b0e1f752952635d91d0df',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
INSERT INTO "tidegate_deliveries" VALUES('9745d21d516541b68dd7cbed165e70e6','b6c187643614988ed5a23',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','failed','subscription retrying, group retrying-lake, batch b6c187643614988ed5a23: the job failed: no memory');
INSERT INTO "tidegate_deliveries" VALUES('a5944e11958841fb9d0074c88e057e11','b1e865846d204f366523d',1,1,'2026-01-01 08:00:00.000000','2026-11-22 10:00:00.000000','processed',NULL);
CREATE TABLE tidegate_files (
	batch_id VARCHAR(64) NOT NULL, 
	member INTEGER NOT NULL, 
	place INTEGER NOT NULL, 
	uri TEXT NOT NULL, 
	records BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	PRIMARY KEY (batch_id, member, place), 
	FOREIGN KEY(batch_id) REFERENCES tidegate_batches (id)
);
INSERT INTO "tidegate_files" VALUES('ba668ef7dbb338dad333d',0,0,'memory:///landing/planned/ba668ef7dbb338dad333d/member-0/4aa48e9309354e5b8f3929f90322241a-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('beca1bcc42cabe7da7629',0,0,'memory:///landing/landed/beca1bcc42cabe7da7629/member-0/9a624229e1874ac6a6087f5f713f671c-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b694f6098383dffa41f2c',0,0,'memory:///landing/landed/b694f6098383dffa41f2c/member-0/1072c149dbb1402f9bea5c4476eea846-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b4330256d231d38c4a7bf',0,0,'memory:///landing/processing/b4330256d231d38c4a7bf/member-0/7a6c67e506a0469289c34859a8ac60d8-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('bc74b3fd9b5f941eced63',0,0,'memory:///landing/processing/bc74b3fd9b5f941eced63/member-0/22dc03f022c846bd9dfc1909b44ad1ee-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b4c508a7041298a660e77',0,0,'memory:///landing/processed/b4c508a7041298a660e77/member-0/b26f88a2f7c14f57ba574baa289ca4c3-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b2cb665a8528a967f21f4',0,0,'memory:///landing/processed/b2cb665a8528a967f21f4/member-0/267cc97da80c4eef83b33fc5d093b07f-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b476ebddf89874c0d6d18',0,0,'memory:///landing/failed/b476ebddf89874c0d6d18/member-0/4faa6c99b8464bf0a5379fdd4095f68f-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b78f8dd84ddef3a70551d',0,0,'memory:///landing/failed/b78f8dd84ddef3a70551d/member-0/4d0f464ccd5f403a90740659c4b412af-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b88107e526af560469b2d',0,0,'memory:///landing/stopped/b88107e526af560469b2d/member-0/acda6cf63c91456cb88b38f17a9d21ae-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b0e82c872fa01e3c964ba',0,0,'memory:///landing/stopped/b0e82c872fa01e3c964ba/member-0/ba823289c1134d23a3cedae5a6179805-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('bf0d96f92183d2c7e5b43',0,0,'memory:///landing/asking/bf0d96f92183d2c7e5b43/member-0/876c71ef5e3d47739417d4aa4c1a4670-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('ba2f93efa94296e8d9dcd',0,0,'memory:///landing/asking/ba2f93efa94296e8d9dcd/member-0/661de1df0e644cb899665089a9797833-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b7bf538207cd5fa28ac53',0,0,'memory:///landing/ignoring/b7bf538207cd5fa28ac53/member-0/bcf8ee31960d4e3780657c151d6f59b6-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b1646efba6344950ca2b9',0,0,'memory:///landing/ignoring/b1646efba6344950ca2b9/member-0/727d38ec222842a08939f620a09c460d-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b2b2d8c09e28b67fea874',0,0,'memory:///landing/dead-lettering/b2b2d8c09e28b67fea874/member-0/5443a3f5b1234f2b98cea0dd23ea7983-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b933812f395dbdaacc417',0,0,'memory:///landing/dead-lettering/b933812f395dbdaacc417/member-0/53aef95b530641e29c4d85cd6154f44e-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('bea99d83dc29f6a30d3c7',0,0,'memory:///landing/published/bea99d83dc29f6a30d3c7/member-0/6dfec835305242e18e49f35c450de4ff-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b73f2db79319938d91333',0,0,'memory:///landing/published/b73f2db79319938d91333/member-0/bb71c39b2caa4914a5c3e9232372e7fc-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b895def6f97bfd54842c5',0,0,'memory:///landing/received/b895def6f97bfd54842c5/member-0/5d6ad01867e940c1bb6d7a2f29cdd946-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b702ed9e482fd1c6bc53e',0,0,'memory:///landing/received/b702ed9e482fd1c6bc53e/member-0/ae18f957fe29454fb2c7f80eba9042f0-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b0e1f752952635d91d0df',0,0,'memory:///landing/retrying/b0e1f752952635d91d0df/member-0/1736010b44d441768be3f6889da2307d-0.parquet',5,25);
INSERT INTO "tidegate_files" VALUES('b6c187643614988ed5a23',0,0,'memory:///landing/retrying/b6c187643614988ed5a23/member-0/74b5cc79d03845a8a534384aced2d6ab-0.parquet',3,15);
INSERT INTO "tidegate_files" VALUES('b1e865846d204f366523d',0,0,'memory:///landing/uncommitted/b1e865846d204f366523d/member-0/ebc1e4b5ef7243e68dce61e81a1505d6-0.parquet',5,25);
CREATE TABLE tidegate_landings (
	batch_id VARCHAR(64) NOT NULL, 
	member INTEGER NOT NULL, 
	reported_at DATETIME NOT NULL, 
	PRIMARY KEY (batch_id, member), 
	FOREIGN KEY(batch_id) REFERENCES tidegate_batches (id)
);
INSERT INTO "tidegate_landings" VALUES('ba668ef7dbb338dad333d',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('beca1bcc42cabe7da7629',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b694f6098383dffa41f2c',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b4330256d231d38c4a7bf',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('bc74b3fd9b5f941eced63',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b4c508a7041298a660e77',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b2cb665a8528a967f21f4',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b476ebddf89874c0d6d18',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b78f8dd84ddef3a70551d',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b88107e526af560469b2d',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b0e82c872fa01e3c964ba',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('bf0d96f92183d2c7e5b43',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('ba2f93efa94296e8d9dcd',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b7bf538207cd5fa28ac53',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b1646efba6344950ca2b9',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b2b2d8c09e28b67fea874',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b933812f395dbdaacc417',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('bea99d83dc29f6a30d3c7',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b73f2db79319938d91333',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b895def6f97bfd54842c5',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b702ed9e482fd1c6bc53e',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b0e1f752952635d91d0df',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b6c187643614988ed5a23',0,'2026-11-22 10:00:00.000000');
INSERT INTO "tidegate_landings" VALUES('b1e865846d204f366523d',0,'2026-11-22 10:00:00.000000');
CREATE TABLE tidegate_ledger (
	identity VARCHAR(32) NOT NULL, 
	PRIMARY KEY (identity)
);
INSERT INTO "tidegate_ledger" VALUES('3cba866edbe445ec9c17875cdf6fb33a');
CREATE TABLE tidegate_losses (
	subscription VARCHAR(250) NOT NULL, 
	topic VARCHAR(250) NOT NULL, 
	partition INTEGER NOT NULL, 
	position BIGINT NOT NULL, 
	earliest BIGINT NOT NULL, 
	end_offset BIGINT NOT NULL, 
	noted_at DATETIME NOT NULL, 
	PRIMARY KEY (subscription, topic, partition, position)
);
CREATE TABLE "tidegate_missing" (
	subscription VARCHAR(250) NOT NULL, 
	topic TEXT NOT NULL, 
	noted_at DATETIME NOT NULL, 
	PRIMARY KEY (subscription, topic)
);
CREATE TABLE tidegate_operations (
	run TEXT NOT NULL, 
	operated_by TEXT NOT NULL, 
	begun_at DATETIME NOT NULL, 
	PRIMARY KEY (run)
);
CREATE TABLE tidegate_positions (
	subscription VARCHAR(250) NOT NULL, 
	group_id TEXT NOT NULL, 
	topic VARCHAR(250) NOT NULL, 
	partition INTEGER NOT NULL, 
	"offset" BIGINT NOT NULL, 
	version BIGINT NOT NULL, 
	committed_at DATETIME NOT NULL, 
	PRIMARY KEY (subscription, group_id, topic, partition)
);
INSERT INTO "tidegate_positions" VALUES('planned','planned-lake','planned',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('landed','landed-lake','landed',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('processing','processing-lake','processing',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('processed','processed-lake','processed',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('failed','failed-lake','failed',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('stopped','stopped-lake','stopped',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('asking','asking-lake','asking',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('ignoring','ignoring-lake','ignoring',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('dead-lettering','dead-lettering-lake','dead-lettering',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('published','published-lake','published',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('received','received-lake','received',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('retrying','retrying-lake','retrying',0,0,0,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('retrying','retrying-lake','again_1000',0,0,6,'2026-01-01 08:00:00.000000');
INSERT INTO "tidegate_positions" VALUES('uncommitted','uncommitted-lake','uncommitted',0,0,0,'2026-01-01 08:00:00.000000');
CREATE TABLE tidegate_ranges (
	batch_id VARCHAR(64) NOT NULL, 
	topic VARCHAR(250) NOT NULL, 
	partition INTEGER NOT NULL, 
	place INTEGER NOT NULL, 
	member INTEGER, 
	start_offset BIGINT NOT NULL, 
	planned_end BIGINT NOT NULL, 
	end_offset BIGINT NOT NULL, 
	records BIGINT, start_epoch INTEGER, end_epoch INTEGER, 
	PRIMARY KEY (batch_id, topic, partition), 
	FOREIGN KEY(batch_id) REFERENCES tidegate_batches (id)
);
INSERT INTO "tidegate_ranges" VALUES('ba668ef7dbb338dad333d','planned',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b1e8e8c87445d50b59109','planned',0,0,0,5,8,8,NULL,0,0);
INSERT INTO "tidegate_ranges" VALUES('beca1bcc42cabe7da7629','landed',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b694f6098383dffa41f2c','landed',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b4330256d231d38c4a7bf','processing',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('bc74b3fd9b5f941eced63','processing',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b4c508a7041298a660e77','processed',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b2cb665a8528a967f21f4','processed',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b476ebddf89874c0d6d18','failed',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b78f8dd84ddef3a70551d','failed',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b88107e526af560469b2d','stopped',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b0e82c872fa01e3c964ba','stopped',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('bf0d96f92183d2c7e5b43','asking',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('ba2f93efa94296e8d9dcd','asking',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b7bf538207cd5fa28ac53','ignoring',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b1646efba6344950ca2b9','ignoring',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b2b2d8c09e28b67fea874','dead-lettering',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b933812f395dbdaacc417','dead-lettering',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('bea99d83dc29f6a30d3c7','published',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b73f2db79319938d91333','published',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b895def6f97bfd54842c5','received',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b702ed9e482fd1c6bc53e','received',0,0,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b0e1f752952635d91d0df','retrying',0,0,0,0,5,5,5,NULL,0);
INSERT INTO "tidegate_ranges" VALUES('b6c187643614988ed5a23','again_1000',0,0,0,0,0,0,NULL,NULL,NULL);
INSERT INTO "tidegate_ranges" VALUES('b6c187643614988ed5a23','retrying',0,1,0,5,8,8,3,0,0);
INSERT INTO "tidegate_ranges" VALUES('b1e865846d204f366523d','uncommitted',0,0,0,0,5,5,5,NULL,0);
CREATE TABLE tidegate_redriven (
	token VARCHAR(32) NOT NULL, 
	partition INTEGER NOT NULL, 
	"offset" BIGINT NOT NULL, 
	destination VARCHAR(250) NOT NULL, 
	PRIMARY KEY (token, partition, "offset"), 
	FOREIGN KEY(token) REFERENCES tidegate_redrives (token)
);
CREATE TABLE tidegate_redrives (
	token VARCHAR(32) NOT NULL, 
	"after" VARCHAR(32) NOT NULL, 
	topic VARCHAR(250) NOT NULL, 
	topic_id VARCHAR(64) NOT NULL, 
	subscription VARCHAR(250) NOT NULL, 
	redriven_by TEXT NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	noted_at DATETIME NOT NULL, 
	closed_at DATETIME, 
	PRIMARY KEY (token)
);
CREATE TABLE tidegate_redriving (
	topic VARCHAR(250) NOT NULL, 
	turn BIGINT NOT NULL, 
	PRIMARY KEY (topic)
);
CREATE TABLE tidegate_schema (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT tidegate_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "tidegate_schema" VALUES('0008');
CREATE TABLE tidegate_states (
	subscription VARCHAR(250) NOT NULL, 
	group_id TEXT NOT NULL, 
	epoch BIGINT NOT NULL, 
	state TEXT, 
	since DATETIME, 
	PRIMARY KEY (subscription, group_id)
);
CREATE TABLE tidegate_subscriptions (
	name VARCHAR(250) NOT NULL, 
	version BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "tidegate_subscriptions" VALUES('planned',7);
INSERT INTO "tidegate_subscriptions" VALUES('landed',8);
INSERT INTO "tidegate_subscriptions" VALUES('processing',9);
INSERT INTO "tidegate_subscriptions" VALUES('processed',10);
INSERT INTO "tidegate_subscriptions" VALUES('failed',10);
INSERT INTO "tidegate_subscriptions" VALUES('stopped',11);
INSERT INTO "tidegate_subscriptions" VALUES('asking',11);
INSERT INTO "tidegate_subscriptions" VALUES('ignoring',11);
INSERT INTO "tidegate_subscriptions" VALUES('dead-lettering',11);
INSERT INTO "tidegate_subscriptions" VALUES('published',11);
INSERT INTO "tidegate_subscriptions" VALUES('received',9);
INSERT INTO "tidegate_subscriptions" VALUES('retrying',11);
INSERT INTO "tidegate_subscriptions" VALUES('uncommitted',6);
CREATE TABLE tidegate_topics (
	subscription VARCHAR(250) NOT NULL, 
	topic VARCHAR(250) NOT NULL, 
	topic_id VARCHAR(64) NOT NULL, 
	PRIMARY KEY (subscription, topic)
);
INSERT INTO "tidegate_topics" VALUES('planned','planned','7d2428edcaf74902bdbe1621d1fd7f89');
INSERT INTO "tidegate_topics" VALUES('landed','landed','5f02d4536df54b1cb3dd931f19b4d5c4');
INSERT INTO "tidegate_topics" VALUES('processing','processing','b10f56e8e65f440baf03737bb417aa16');
INSERT INTO "tidegate_topics" VALUES('processed','processed','62148e941dcf4b7287c0940c384edd17');
INSERT INTO "tidegate_topics" VALUES('failed','failed','6f3b524492674ab4be5787f4cab59a7a');
INSERT INTO "tidegate_topics" VALUES('stopped','stopped','9d4ad6b7864146f0b5df305ca799e64a');
INSERT INTO "tidegate_topics" VALUES('asking','asking','82ec951a71004827a43071cc77f3f075');
INSERT INTO "tidegate_topics" VALUES('ignoring','ignoring','38d0781e296945e1afbaa0a5ae23ec0d');
INSERT INTO "tidegate_topics" VALUES('dead-lettering','dead-lettering','342ddaa79c14499ca4cb6157fccf9681');
INSERT INTO "tidegate_topics" VALUES('published','published','86f4cfa43e3c41d8b10b92f507dff07f');
INSERT INTO "tidegate_topics" VALUES('received','received','742a45064c6045d7af696304ed72f432');
INSERT INTO "tidegate_topics" VALUES('retrying','retrying','c57335bcd5a448909fde723907359187');
INSERT INTO "tidegate_topics" VALUES('retrying','again_1000','38fde85d717b4f5aa800f717ec4f4d24');
INSERT INTO "tidegate_topics" VALUES('uncommitted','uncommitted','130401d22c9149f9b2060447b36ed313');
CREATE UNIQUE INDEX tidegate_batches_history ON tidegate_batches (subscription, number);
CREATE UNIQUE INDEX tidegate_batches_open ON tidegate_batches (subscription) WHERE closed_at IS NULL;
CREATE INDEX tidegate_redrives_topic ON tidegate_redrives (topic, state);
CREATE INDEX tidegate_redriven_place ON tidegate_redriven ("offset", partition);
CREATE INDEX tidegate_batches_committed ON tidegate_batches (subscription, number) WHERE offsets_committed = 1;
COMMIT;
