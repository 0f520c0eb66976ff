-- revision 0001

CREATE TABLE organization (
  id VARCHAR(36) NOT NULL,
  code VARCHAR(80) NOT NULL,
  name TEXT NOT NULL,
  created VARCHAR(27) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (code)
);

CREATE TABLE entity (
  org VARCHAR(36) NOT NULL,
  kind VARCHAR(80) NOT NULL,
  id VARCHAR(36) NOT NULL,
  version INTEGER NOT NULL,
  code VARCHAR(80),
  body TEXT NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  modified VARCHAR(27) NOT NULL,
  modified_by TEXT NOT NULL,
  PRIMARY KEY (org, kind, id),
  CONSTRAINT entity_code UNIQUE (org, kind, code),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE TABLE entity_reference (
  org VARCHAR(36) NOT NULL,
  kind VARCHAR(80) NOT NULL,
  id VARCHAR(36) NOT NULL,
  field VARCHAR(200) NOT NULL,
  target_kind VARCHAR(80) NOT NULL,
  target_id VARCHAR(36) NOT NULL,
  PRIMARY KEY (org, kind, id, field),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX entity_reference_target ON entity_reference (org, target_kind, target_id);

CREATE TABLE entity_history (
  org VARCHAR(36) NOT NULL,
  kind VARCHAR(80) NOT NULL,
  id VARCHAR(36) NOT NULL,
  version INTEGER NOT NULL,
  valid_from VARCHAR(27) NOT NULL,
  valid_to VARCHAR(27),
  body TEXT,
  author TEXT NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  PRIMARY KEY (org, kind, id, version),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX entity_history_time ON entity_history (org, valid_from);

CREATE TABLE access_key (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  service_user_id VARCHAR(36) NOT NULL,
  secret_sha256 VARCHAR(64) NOT NULL,
  status VARCHAR(20) NOT NULL,
  created VARCHAR(27) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX access_key_user ON access_key (org, service_user_id);

CREATE TABLE policy_grant (
  org VARCHAR(36) NOT NULL,
  policy_id VARCHAR(36) NOT NULL,
  principal_type VARCHAR(20) NOT NULL,
  principal_id VARCHAR(36) NOT NULL,
  id VARCHAR(36) NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  PRIMARY KEY (org, policy_id, principal_type, principal_id),
  FOREIGN KEY(org) REFERENCES organization (id),
  UNIQUE (id)
);

CREATE TABLE job (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  kind VARCHAR(40) NOT NULL,
  status VARCHAR(20) NOT NULL,
  parameters TEXT NOT NULL,
  lease_until VARCHAR(27),
  attempt INTEGER NOT NULL,
  snapshot BIGINT,
  result TEXT,
  error TEXT,
  created VARCHAR(27) NOT NULL,
  started VARCHAR(27),
  finished VARCHAR(27),
  PRIMARY KEY (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX job_recent ON job (org, created);

CREATE TABLE bill (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  account_id VARCHAR(36) NOT NULL,
  bill_date VARCHAR(10) NOT NULL,
  frequency VARCHAR(20) NOT NULL,
  interval INTEGER NOT NULL,
  period VARCHAR(40) NOT NULL,
  version INTEGER NOT NULL,
  status VARCHAR(20) NOT NULL,
  locked BOOLEAN NOT NULL,
  currency VARCHAR(80) NOT NULL,
  total TEXT NOT NULL,
  body TEXT NOT NULL,
  pins TEXT NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  modified VARCHAR(27) NOT NULL,
  modified_by TEXT NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT bill_identity UNIQUE (org, account_id, bill_date, frequency, interval),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX bill_period ON bill (org, period);

CREATE TABLE bill_line (
  bill_id VARCHAR(36) NOT NULL,
  sequence INTEGER NOT NULL,
  key TEXT NOT NULL,
  body TEXT NOT NULL,
  pins TEXT NOT NULL,
  PRIMARY KEY (bill_id, sequence),
  CONSTRAINT bill_line_key UNIQUE (bill_id, key),
  FOREIGN KEY(bill_id) REFERENCES bill (id)
);

-- revision 0002

CREATE TABLE signing_key (
  kid VARCHAR(36) NOT NULL,
  private_key TEXT NOT NULL,
  created VARCHAR(27) NOT NULL,
  not_after VARCHAR(27),
  PRIMARY KEY (kid)
);

CREATE TABLE person (
  id VARCHAR(36) NOT NULL,
  email VARCHAR(320) NOT NULL,
  first_name TEXT NOT NULL,
  last_name TEXT NOT NULL,
  contact_number TEXT,
  password_hash TEXT,
  support_user BOOLEAN NOT NULL,
  first_accepted_terms VARCHAR(27),
  last_accepted_terms VARCHAR(27),
  created VARCHAR(27) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (email)
);

CREATE TABLE membership (
  org VARCHAR(36) NOT NULL,
  person_id VARCHAR(36) NOT NULL,
  version INTEGER NOT NULL,
  permission_policy TEXT NOT NULL,
  end_access VARCHAR(27),
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  modified VARCHAR(27) NOT NULL,
  modified_by TEXT NOT NULL,
  PRIMARY KEY (org, person_id),
  FOREIGN KEY(org) REFERENCES organization (id),
  FOREIGN KEY(person_id) REFERENCES person (id)
);

CREATE INDEX membership_person ON membership (person_id);

CREATE TABLE session (
  id VARCHAR(36) NOT NULL,
  token_sha256 VARCHAR(64) NOT NULL,
  person_id VARCHAR(36) NOT NULL,
  created VARCHAR(27) NOT NULL,
  expires VARCHAR(27) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (token_sha256),
  FOREIGN KEY(person_id) REFERENCES person (id)
);

CREATE INDEX session_person ON session (person_id);

CREATE TABLE session_grant (
  token_sha256 VARCHAR(64) NOT NULL,
  kind VARCHAR(20) NOT NULL,
  session_id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  redirect_uri TEXT,
  challenge VARCHAR(128),
  expires VARCHAR(27) NOT NULL,
  used VARCHAR(27),
  PRIMARY KEY (token_sha256),
  FOREIGN KEY(session_id) REFERENCES session (id) ON DELETE CASCADE,
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX session_grant_session ON session_grant (session_id);

CREATE TABLE one_time_token (
  token_sha256 VARCHAR(64) NOT NULL,
  purpose VARCHAR(20) NOT NULL,
  org VARCHAR(36) NOT NULL,
  subject_id VARCHAR(36) NOT NULL,
  expires VARCHAR(27) NOT NULL,
  used VARCHAR(27),
  PRIMARY KEY (token_sha256),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX one_time_token_subject ON one_time_token (subject_id);

CREATE TABLE resource_group_member (
  org VARCHAR(36) NOT NULL,
  group_id VARCHAR(36) NOT NULL,
  target_id VARCHAR(36) NOT NULL,
  target_type VARCHAR(10) NOT NULL,
  id VARCHAR(36) NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  PRIMARY KEY (org, group_id, target_id),
  FOREIGN KEY(org) REFERENCES organization (id),
  UNIQUE (id)
);

CREATE INDEX resource_group_member_target ON resource_group_member (org, target_id);

CREATE INDEX policy_grant_principal ON policy_grant (org, principal_id);

-- revision 0003

CREATE TABLE balance_transaction (
  org VARCHAR(36) NOT NULL,
  balance_id VARCHAR(36) NOT NULL,
  sequence INTEGER NOT NULL,
  id VARCHAR(36) NOT NULL,
  amount TEXT NOT NULL,
  description TEXT,
  paid TEXT,
  currency_paid VARCHAR(80),
  transaction_type_id VARCHAR(36),
  applied VARCHAR(27) NOT NULL,
  transacted VARCHAR(27),
  entity_type VARCHAR(20) NOT NULL,
  entity_id TEXT NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  PRIMARY KEY (org, balance_id, sequence),
  FOREIGN KEY(org) REFERENCES organization (id),
  UNIQUE (id)
);

CREATE INDEX balance_transaction_type ON balance_transaction (org, transaction_type_id);

-- revision 0004

CREATE TABLE lookup_item (
  org VARCHAR(36) NOT NULL,
  revision_id VARCHAR(36) NOT NULL,
  key TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (org, revision_id, key),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE TABLE lookup_job (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  revision_id VARCHAR(36) NOT NULL,
  destination_id VARCHAR(36),
  type VARCHAR(20) NOT NULL,
  status VARCHAR(20) NOT NULL,
  created VARCHAR(27) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX lookup_job_revision ON lookup_job (org, revision_id, created);

-- revision 0005

CREATE TABLE event (
  seq BIGSERIAL NOT NULL,
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  name VARCHAR(400) NOT NULL,
  kind VARCHAR(80) NOT NULL,
  resource_id VARCHAR(200),
  account_id VARCHAR(36),
  time VARCHAR(27) NOT NULL,
  actioned VARCHAR(27),
  body TEXT NOT NULL,
  PRIMARY KEY (seq),
  UNIQUE (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX event_resource ON event (org, resource_id, time, seq);

CREATE INDEX event_account ON event (org, account_id, time, seq);

CREATE INDEX event_name ON event (org, name, time, seq);

CREATE INDEX event_time ON event (org, time, seq);

CREATE TABLE event_notification (
  notification_id VARCHAR(36) NOT NULL,
  event_id VARCHAR(36) NOT NULL,
  PRIMARY KEY (notification_id, event_id),
  FOREIGN KEY(event_id) REFERENCES event (id)
);

CREATE INDEX event_notification_event ON event_notification (event_id);

-- revision 0006

CREATE INDEX entity_newest ON entity (org, kind, created, id);

-- revision 0007

CREATE TABLE upload (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  name VARCHAR(100) NOT NULL,
  content_type VARCHAR(100) NOT NULL,
  content_length BIGINT NOT NULL,
  status VARCHAR(20) NOT NULL,
  version INTEGER NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  start_until VARCHAR(27) NOT NULL,
  arrived VARCHAR(27),
  sha256 VARCHAR(64),
  lease_until VARCHAR(27),
  attempt INTEGER NOT NULL,
  outcome TEXT,
  finished VARCHAR(27),
  PRIMARY KEY (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX upload_newest ON upload (org, created, id);

CREATE INDEX upload_waiting ON upload (org, status, created);

-- revision 0008

CREATE TABLE inbox (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  url TEXT NOT NULL,
  afterwards VARCHAR(20) NOT NULL,
  created VARCHAR(27) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX inbox_org ON inbox (org, created);

CREATE TABLE inbox_claim (
  id VARCHAR(36) NOT NULL,
  inbox VARCHAR(36) NOT NULL,
  key TEXT NOT NULL,
  version TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  status VARCHAR(20) NOT NULL,
  attempt INTEGER NOT NULL,
  lease_until VARCHAR(27),
  received VARCHAR(27) NOT NULL,
  report TEXT,
  error TEXT,
  finished VARCHAR(27),
  PRIMARY KEY (id)
);

CREATE INDEX inbox_claim_due ON inbox_claim (inbox, status, lease_until);

-- revision 0009

CREATE TABLE ledger_report (
  org VARCHAR(36) NOT NULL,
  reported BIGINT NOT NULL,
  PRIMARY KEY (org),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE TABLE incident (
  org VARCHAR(36) NOT NULL,
  name VARCHAR(80) NOT NULL,
  subject VARCHAR(200) NOT NULL,
  event_id VARCHAR(36) NOT NULL,
  since VARCHAR(27) NOT NULL,
  PRIMARY KEY (org, name, subject),
  FOREIGN KEY(org) REFERENCES organization (id)
);

-- revision 0010

ALTER TABLE upload ADD COLUMN kind VARCHAR(20) DEFAULT 'measurements' NOT NULL;

ALTER TABLE lookup_job ADD COLUMN data_version BIGINT;

-- revision 0011

CREATE TABLE backfill (
  org VARCHAR(36) NOT NULL,
  id VARCHAR(36) NOT NULL,
  status VARCHAR(20) NOT NULL,
  wanted TEXT NOT NULL,
  author TEXT NOT NULL,
  created VARCHAR(27) NOT NULL,
  snapshot BIGINT NOT NULL,
  applied BIGINT,
  summary TEXT NOT NULL,
  history TEXT NOT NULL,
  PRIMARY KEY (org, id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX backfill_newest ON backfill (org, created, id);

-- revision 0012

ALTER TABLE bill ADD COLUMN snapshot BIGINT;

DROP INDEX bill_period;

CREATE INDEX bill_period ON bill (org, period, frequency, snapshot);

-- revision 0013

ALTER TABLE job ADD COLUMN version INTEGER DEFAULT '1' NOT NULL;

ALTER TABLE job ADD COLUMN author TEXT;

ALTER TABLE job ADD COLUMN schedule_id VARCHAR(36);

ALTER TABLE job ADD COLUMN due VARCHAR(27);

ALTER TABLE job ADD COLUMN progress TEXT;

ALTER TABLE job ADD COLUMN cancel_asked BOOLEAN DEFAULT false NOT NULL;

CREATE UNIQUE INDEX job_due ON job (schedule_id, due);

CREATE INDEX job_of_kind ON job (org, kind, status, created);

-- revision 0014

ALTER TABLE job ALTER COLUMN org DROP NOT NULL;

ALTER TABLE job ADD COLUMN not_before VARCHAR(27);

DROP INDEX job_recent;

CREATE INDEX job_newest ON job (org, kind, created, id);

DROP INDEX upload_newest;

DROP INDEX upload_waiting;

ALTER TABLE upload DROP COLUMN org;

ALTER TABLE upload DROP COLUMN status;

ALTER TABLE upload DROP COLUMN version;

ALTER TABLE upload DROP COLUMN created;

ALTER TABLE upload DROP COLUMN created_by;

ALTER TABLE upload DROP COLUMN lease_until;

ALTER TABLE upload DROP COLUMN attempt;

ALTER TABLE upload DROP COLUMN outcome;

ALTER TABLE upload DROP COLUMN finished;

ALTER TABLE upload DROP COLUMN kind;

ALTER TABLE upload ADD CONSTRAINT upload_job FOREIGN KEY(id) REFERENCES job (id);

DROP INDEX lookup_job_revision;

ALTER TABLE lookup_job DROP COLUMN org;

ALTER TABLE lookup_job DROP COLUMN status;

ALTER TABLE lookup_job DROP COLUMN created;

CREATE INDEX lookup_job_revision ON lookup_job (revision_id);

ALTER TABLE lookup_job ADD CONSTRAINT lookup_job_job FOREIGN KEY(id) REFERENCES job (id);

DROP INDEX inbox_claim_due;

ALTER TABLE inbox_claim DROP COLUMN status;

ALTER TABLE inbox_claim DROP COLUMN attempt;

ALTER TABLE inbox_claim DROP COLUMN lease_until;

ALTER TABLE inbox_claim DROP COLUMN received;

ALTER TABLE inbox_claim DROP COLUMN report;

ALTER TABLE inbox_claim DROP COLUMN error;

ALTER TABLE inbox_claim DROP COLUMN finished;

ALTER TABLE inbox_claim ADD CONSTRAINT inbox_claim_job FOREIGN KEY(id) REFERENCES job (id);

-- revision 0015

ALTER TABLE bill ADD COLUMN approved VARCHAR(27);

ALTER TABLE bill ADD COLUMN approved_by TEXT;

ALTER TABLE bill ADD COLUMN locked_at VARCHAR(27);

ALTER TABLE bill ADD COLUMN locked_by TEXT;

ALTER TABLE bill ADD COLUMN calculated VARCHAR(27);

ALTER TABLE bill ADD COLUMN job_id VARCHAR(36);

ALTER TABLE bill ADD COLUMN invoice_number TEXT;

CREATE INDEX bill_newest ON bill (org, created, id);

CREATE INDEX bill_dated ON bill (org, bill_date);

CREATE TABLE invoice_sequence (
  org VARCHAR(36) NOT NULL,
  last BIGINT NOT NULL,
  PRIMARY KEY (org),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE TABLE bill_memo (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  bill_id VARCHAR(36) NOT NULL,
  kind VARCHAR(20) NOT NULL,
  position INTEGER NOT NULL,
  key TEXT NOT NULL,
  reason_id VARCHAR(36),
  version INTEGER NOT NULL,
  body TEXT NOT NULL,
  line TEXT NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  modified VARCHAR(27) NOT NULL,
  modified_by TEXT NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT bill_memo_position UNIQUE (bill_id, position),
  FOREIGN KEY(org) REFERENCES organization (id),
  FOREIGN KEY(bill_id) REFERENCES bill (id)
);

CREATE INDEX bill_memo_reason ON bill_memo (org, reason_id);

-- revision 0016

CREATE TABLE posting (
  sequence BIGSERIAL NOT NULL,
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  from_account TEXT NOT NULL,
  to_account TEXT NOT NULL,
  amount TEXT NOT NULL,
  currency VARCHAR(80) NOT NULL,
  kind VARCHAR(20) NOT NULL,
  source_id VARCHAR(36) NOT NULL,
  bill_id VARCHAR(36),
  bill_version INTEGER,
  job_id VARCHAR(36),
  reverses VARCHAR(36),
  applied VARCHAR(27),
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  PRIMARY KEY (sequence),
  UNIQUE (id),
  FOREIGN KEY(org) REFERENCES organization (id),
  UNIQUE (reverses)
);

CREATE TABLE balance_note (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  description TEXT,
  paid TEXT,
  currency_paid VARCHAR(80),
  transaction_type_id VARCHAR(36),
  transacted VARCHAR(27),
  entity_type VARCHAR(20) NOT NULL,
  entity_id TEXT NOT NULL,
  due VARCHAR(27),
  PRIMARY KEY (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX posting_source ON posting (org, source_id, sequence);

CREATE INDEX posting_bill ON posting (bill_id);

CREATE INDEX balance_note_type ON balance_note (org, transaction_type_id);

CREATE UNIQUE INDEX balance_note_run ON balance_note (org, entity_id, due);

DROP TABLE balance_transaction;

-- revision 0017

ALTER TABLE bill ADD COLUMN grouping_key VARCHAR(36) DEFAULT '' NOT NULL;

ALTER TABLE bill DROP CONSTRAINT bill_identity;

ALTER TABLE bill ADD CONSTRAINT bill_identity UNIQUE (org, account_id, bill_date, frequency, interval, grouping_key);

-- revision 0018

CREATE TABLE scheduled_charge (
  charge_id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  schedule_id VARCHAR(36) NOT NULL,
  service_start VARCHAR(27) NOT NULL,
  service_end VARCHAR(27) NOT NULL,
  due VARCHAR(27) NOT NULL,
  created VARCHAR(27) NOT NULL,
  PRIMARY KEY (charge_id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE UNIQUE INDEX scheduled_charge_run ON scheduled_charge (org, schedule_id, service_start);

-- revision 0019

CREATE TABLE balance_settlement (
  balance_id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  version INTEGER NOT NULL,
  ends INTEGER NOT NULL,
  postings INTEGER NOT NULL,
  PRIMARY KEY (balance_id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

-- revision 0020

ALTER TABLE bill ADD COLUMN outdated_by VARCHAR(36);

-- revision 0021

ALTER TABLE event ADD COLUMN category VARCHAR(40);

ALTER TABLE event ADD COLUMN base_id VARCHAR(36);

CREATE TABLE event_position (
  org VARCHAR(36) NOT NULL,
  reader VARCHAR(40) NOT NULL,
  seq BIGINT NOT NULL,
  PRIMARY KEY (org, reader),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE TABLE integration_run (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  status VARCHAR(40) NOT NULL,
  config_id VARCHAR(36),
  config_version INTEGER,
  entity_type VARCHAR(80) NOT NULL,
  entity_id VARCHAR(200) NOT NULL,
  destination VARCHAR(80) NOT NULL,
  destination_id VARCHAR(36),
  run_key VARCHAR(400) NOT NULL,
  account_id VARCHAR(36),
  event_id VARCHAR(36),
  rule_version INTEGER,
  parent_id VARCHAR(36),
  replayed_from VARCHAR(36),
  body TEXT,
  external_id TEXT,
  url TEXT,
  created VARCHAR(27) NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT run_job FOREIGN KEY(id) REFERENCES job (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE UNIQUE INDEX integration_run_key ON integration_run (org, run_key);

CREATE INDEX integration_run_entity ON integration_run (org, entity_type, entity_id, created, id);

CREATE INDEX integration_run_destination ON integration_run (org, destination_id, created, id);

CREATE INDEX integration_run_config ON integration_run (org, config_id, created, id);

CREATE TABLE integration_try (
  run_id VARCHAR(36) NOT NULL,
  number INTEGER NOT NULL,
  started VARCHAR(27) NOT NULL,
  ended VARCHAR(27),
  request TEXT NOT NULL,
  status_code INTEGER,
  response TEXT,
  error TEXT,
  PRIMARY KEY (run_id, number),
  FOREIGN KEY(run_id) REFERENCES integration_run (id)
);

CREATE TABLE destination_health (
  org VARCHAR(36) NOT NULL,
  destination_id VARCHAR(36) NOT NULL,
  failures INTEGER NOT NULL,
  failing_since VARCHAR(27),
  paused_until VARCHAR(27),
  disabled VARCHAR(27),
  reason TEXT,
  PRIMARY KEY (org, destination_id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

-- revision 0022

ALTER TABLE bill ADD COLUMN inputs VARCHAR(80);

-- revision 0023

ALTER TABLE integration_run ADD COLUMN queue VARCHAR(80);

ALTER TABLE integration_run ADD COLUMN due VARCHAR(27);

CREATE INDEX integration_run_due ON integration_run (queue, due) WHERE due IS NOT NULL;

-- revision 0024

ALTER TABLE event ADD COLUMN written VARCHAR(27);

CREATE INDEX event_seq ON event (org, seq);

CREATE INDEX event_written ON event (org, written);

CREATE TABLE scheduled_moment (
  org VARCHAR(36) NOT NULL,
  config_id VARCHAR(36) NOT NULL,
  entity_id VARCHAR(36) NOT NULL,
  due VARCHAR(27) NOT NULL,
  fired VARCHAR(27),
  PRIMARY KEY (org, config_id, entity_id, due),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX scheduled_moment_due ON scheduled_moment (org, fired, due);

CREATE INDEX scheduled_moment_entity ON scheduled_moment (org, entity_id);

CREATE TABLE scheduled_scan (
  org VARCHAR(36) NOT NULL,
  config_id VARCHAR(36) NOT NULL,
  version INTEGER NOT NULL,
  zone VARCHAR(80) NOT NULL,
  last_id VARCHAR(36) NOT NULL,
  complete BOOLEAN NOT NULL,
  PRIMARY KEY (org, config_id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

-- revision 0025

CREATE TABLE marketplace_record (
  org VARCHAR(36) NOT NULL,
  customer VARCHAR(200) NOT NULL,
  dimension VARCHAR(300) NOT NULL,
  hour VARCHAR(27) NOT NULL,
  system VARCHAR(80) NOT NULL,
  account_id VARCHAR(36) NOT NULL,
  bill_id VARCHAR(36) NOT NULL,
  run_key VARCHAR(400) NOT NULL,
  quantity BIGINT NOT NULL,
  accepted BOOLEAN NOT NULL,
  PRIMARY KEY (org, customer, dimension, hour),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX marketplace_record_account ON marketplace_record (org, account_id, dimension);

CREATE INDEX marketplace_record_bill ON marketplace_record (org, bill_id);

-- revision 0026

CREATE TABLE marketplace_bill (
  org VARCHAR(36) NOT NULL,
  dimension VARCHAR(300) NOT NULL,
  bill_id VARCHAR(36) NOT NULL,
  account_id VARCHAR(36) NOT NULL,
  PRIMARY KEY (org, dimension, bill_id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX marketplace_bill_account ON marketplace_bill (org, account_id, dimension);

-- revision 0027

CREATE TABLE refused_credentials (
  org VARCHAR(36) NOT NULL,
  destination_id VARCHAR(36) NOT NULL,
  refused VARCHAR(27) NOT NULL,
  PRIMARY KEY (org, destination_id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

-- revision 0028

-- revision 0029

CREATE INDEX job_unfinished ON job (kind, status, org) WHERE finished IS NULL;

-- revision 0030

ALTER TABLE organization ADD COLUMN transactions BIGINT DEFAULT '0' NOT NULL;

ALTER TABLE entity_history ADD COLUMN began BIGINT DEFAULT '0' NOT NULL;

ALTER TABLE entity_history ADD COLUMN ended BIGINT;

ALTER TABLE entity_history ADD COLUMN digest VARCHAR(64);

CREATE INDEX entity_history_ended ON entity_history (org, ended);

ALTER TABLE posting ADD COLUMN began BIGINT DEFAULT '0' NOT NULL;

ALTER TABLE posting ADD COLUMN digest VARCHAR(64);

ALTER TABLE bill ADD COLUMN began BIGINT DEFAULT '0' NOT NULL;

ALTER TABLE bill ADD COLUMN content_version INTEGER DEFAULT '1' NOT NULL;

ALTER TABLE bill ADD COLUMN locked_in BIGINT;

ALTER TABLE bill ADD COLUMN calculation_id VARCHAR(36);

ALTER TABLE bill ADD COLUMN ledger_at BIGINT;

CREATE INDEX bill_calculated ON bill (org, calculation_id);

CREATE TABLE bill_calculation (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  at BIGINT NOT NULL,
  snapshot BIGINT NOT NULL,
  selection TEXT NOT NULL,
  code TEXT NOT NULL,
  digest VARCHAR(64) NOT NULL,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX bill_calculation_newest ON bill_calculation (org, created);

CREATE TABLE bill_version (
  bill_id VARCHAR(36) NOT NULL,
  version INTEGER NOT NULL,
  org VARCHAR(36) NOT NULL,
  account_id VARCHAR(36) NOT NULL,
  bill_date VARCHAR(10) NOT NULL,
  frequency VARCHAR(20) NOT NULL,
  interval INTEGER NOT NULL,
  grouping_key VARCHAR(36) NOT NULL,
  period VARCHAR(40) NOT NULL,
  currency VARCHAR(80) NOT NULL,
  total TEXT NOT NULL,
  body TEXT NOT NULL,
  pins TEXT NOT NULL,
  snapshot BIGINT,
  began BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  calculation_id VARCHAR(36),
  ledger_at BIGINT,
  created VARCHAR(27) NOT NULL,
  created_by TEXT NOT NULL,
  modified VARCHAR(27) NOT NULL,
  modified_by TEXT NOT NULL,
  replaced VARCHAR(27) NOT NULL,
  replaced_by TEXT NOT NULL,
  PRIMARY KEY (bill_id, version),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX bill_version_account ON bill_version (org, account_id, ended);

CREATE INDEX bill_version_dated ON bill_version (org, bill_date);

CREATE TABLE bill_version_line (
  bill_id VARCHAR(36) NOT NULL,
  version INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  key TEXT NOT NULL,
  body TEXT NOT NULL,
  pins TEXT NOT NULL,
  PRIMARY KEY (bill_id, version, sequence)
);

-- revision 0031

CREATE TABLE lake_watch (
  org VARCHAR(36) NOT NULL,
  looked VARCHAR(27) NOT NULL,
  due VARCHAR(27),
  mark VARCHAR(80) NOT NULL,
  limits TEXT NOT NULL,
  configured TEXT NOT NULL,
  PRIMARY KEY (org),
  FOREIGN KEY(org) REFERENCES organization (id)
);

-- revision 0032

CREATE TABLE lake_file (
  org VARCHAR(36) NOT NULL,
  path VARCHAR(400) NOT NULL,
  size_bytes BIGINT NOT NULL,
  sha256 VARCHAR(64),
  noted VARCHAR(27) NOT NULL,
  PRIMARY KEY (org, path),
  FOREIGN KEY(org) REFERENCES organization (id)
);

-- revision 0033

CREATE TABLE statement_job (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  bill_id VARCHAR(36) NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT statement_job_job FOREIGN KEY(id) REFERENCES job (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX statement_job_bill ON statement_job (org, bill_id);

CREATE TABLE bill_statement (
  bill_id VARCHAR(36) NOT NULL,
  format VARCHAR(4) NOT NULL,
  org VARCHAR(36) NOT NULL,
  job_id VARCHAR(36) NOT NULL,
  key TEXT NOT NULL,
  size BIGINT NOT NULL,
  sha256 VARCHAR(64) NOT NULL,
  calculated VARCHAR(27) NOT NULL,
  made VARCHAR(27) NOT NULL,
  filtered BOOLEAN NOT NULL,
  outdated BOOLEAN DEFAULT false NOT NULL,
  PRIMARY KEY (bill_id, format),
  FOREIGN KEY(bill_id) REFERENCES bill (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX bill_statement_org ON bill_statement (org);

-- revision 0034

CREATE TABLE late_usage (
  id VARCHAR(36) NOT NULL,
  org VARCHAR(36) NOT NULL,
  bill_id VARCHAR(36) NOT NULL,
  account_id VARCHAR(36) NOT NULL,
  bill_date VARCHAR(10) NOT NULL,
  frequency VARCHAR(20) NOT NULL,
  interval INTEGER NOT NULL,
  grouping_key VARCHAR(36) NOT NULL,
  period VARCHAR(40) NOT NULL,
  currency VARCHAR(80) NOT NULL,
  since BIGINT NOT NULL,
  until BIGINT NOT NULL,
  status VARCHAR(20) NOT NULL,
  bill_version INTEGER NOT NULL,
  sources TEXT NOT NULL,
  difference TEXT,
  new_version INTEGER,
  reason TEXT,
  found VARCHAR(27) NOT NULL,
  decided VARCHAR(27),
  PRIMARY KEY (id),
  FOREIGN KEY(org) REFERENCES organization (id)
);

CREATE INDEX late_usage_bill ON late_usage (org, bill_id);

CREATE INDEX late_usage_account ON late_usage (org, account_id, bill_date);

CREATE INDEX late_usage_status ON late_usage (org, status);

CREATE TABLE late_usage_line (
  late_usage_id VARCHAR(36) NOT NULL,
  position INTEGER NOT NULL,
  key TEXT NOT NULL,
  line_id VARCHAR(36),
  description TEXT NOT NULL,
  amount TEXT NOT NULL,
  memo_bill_id VARCHAR(36),
  memo_id VARCHAR(36),
  memo_amount TEXT,
  memo_currency VARCHAR(80),
  PRIMARY KEY (late_usage_id, position),
  FOREIGN KEY(late_usage_id) REFERENCES late_usage (id)
);

CREATE INDEX late_usage_line_memo ON late_usage_line (memo_bill_id);

-- revision 0035

CREATE TABLE unbilled_usage (
  org VARCHAR(36) NOT NULL,
  month VARCHAR(7) NOT NULL,
  account_id VARCHAR(36) NOT NULL,
  position INTEGER NOT NULL,
  snapshot BIGINT NOT NULL,
  found VARCHAR(27) NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (org, month, account_id, position),
  FOREIGN KEY(org) REFERENCES organization (id)
);

-- revision 0036

ALTER TABLE integration_run ADD COLUMN action VARCHAR(20) DEFAULT 'SEND' NOT NULL;

ALTER TABLE integration_run ADD COLUMN subject VARCHAR(200);

CREATE INDEX integration_run_subject ON integration_run (org, subject);

-- revision 0037

ALTER TABLE late_usage ADD COLUMN ledger_at BIGINT;

ALTER TABLE late_usage_line ADD COLUMN taken_back VARCHAR(36);

CREATE INDEX late_usage_line_taken_back ON late_usage_line (taken_back);

-- revision 0038

ALTER TABLE inbox ADD COLUMN author TEXT;

-- revision 0039

CREATE OR REPLACE FUNCTION readable_json(body text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN body::jsonb;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$;

-- revision 0040

ALTER TABLE job ADD COLUMN deaths INTEGER DEFAULT '0' NOT NULL;

-- revision 0041

CREATE OR REPLACE FUNCTION readable_member(body text, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN body::json ->> name;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$;
