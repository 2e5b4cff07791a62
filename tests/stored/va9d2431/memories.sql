CREATE SCHEMA stored_a9d2431;
CREATE TABLE stored_a9d2431.chat_memory_blocks (
    scope bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    text text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE stored_a9d2431.chat_memory_documents (
    key bigint NOT NULL,
    scope bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    fact bigint,
    conversation text COLLATE pg_catalog."C",
    "position" bigint,
    speaker text COLLATE pg_catalog."C",
    said bigint,
    text text NOT NULL COLLATE pg_catalog."C",
    words tsvector GENERATED ALWAYS AS ((to_tsvector('english'::regconfig, text) || array_to_tsvector(ARRAY[('scope'::text || (scope)::text)]))) STORED
);
ALTER TABLE stored_a9d2431.chat_memory_documents ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored_a9d2431.chat_memory_documents_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored_a9d2431.chat_memory_entities (
    key bigint NOT NULL,
    scope bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    properties text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE stored_a9d2431.chat_memory_entities ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored_a9d2431.chat_memory_entities_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored_a9d2431.chat_memory_facts (
    key bigint NOT NULL,
    scope bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    predicate text NOT NULL COLLATE pg_catalog."C",
    object text NOT NULL COLLATE pg_catalog."C",
    accessed bigint,
    accesses bigint DEFAULT 0 NOT NULL
);
ALTER TABLE stored_a9d2431.chat_memory_facts ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored_a9d2431.chat_memory_facts_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored_a9d2431.chat_memory_links (
    scope bigint NOT NULL,
    fact bigint NOT NULL,
    entity text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE stored_a9d2431.chat_memory_mentions (
    relation bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE stored_a9d2431.chat_memory_periods (
    scope bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    fact bigint NOT NULL,
    begins bigint NOT NULL,
    ends bigint NOT NULL,
    statement bigint NOT NULL
);
CREATE TABLE stored_a9d2431.chat_memory_predicates (
    predicate text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE stored_a9d2431.chat_memory_records (
    scope bigint NOT NULL,
    conversation text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    document text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE stored_a9d2431.chat_memory_relations (
    key bigint NOT NULL,
    scope bigint NOT NULL,
    source bigint NOT NULL,
    target bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    label text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE stored_a9d2431.chat_memory_relations ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored_a9d2431.chat_memory_relations_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored_a9d2431.chat_memory_schema (
    version bigint NOT NULL
);
CREATE TABLE stored_a9d2431.chat_memory_scopes (
    key bigint NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL
);
ALTER TABLE stored_a9d2431.chat_memory_scopes ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored_a9d2431.chat_memory_scopes_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored_a9d2431.chat_memory_statements (
    key bigint NOT NULL,
    fact bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    predicate text NOT NULL COLLATE pg_catalog."C",
    object text NOT NULL COLLATE pg_catalog."C",
    text text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    rank bigint NOT NULL,
    confidence double precision NOT NULL,
    said bigint NOT NULL,
    valid_from bigint NOT NULL,
    valid_to bigint NOT NULL,
    recorded bigint NOT NULL,
    retired bigint,
    citation text COLLATE pg_catalog."C",
    outcome text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE stored_a9d2431.chat_memory_statements ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored_a9d2431.chat_memory_statements_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored_a9d2431.chat_memory_vectors (
    document bigint NOT NULL,
    model text NOT NULL COLLATE pg_catalog."C",
    vector bytea NOT NULL
);
INSERT INTO stored_a9d2431.chat_memory_blocks VALUES (1, 'persona', 'Short answers.');
INSERT INTO stored_a9d2431.chat_memory_documents OVERRIDING SYSTEM VALUE VALUES (1, 1, 'turn', NULL, 'chat-1', 0, 'Ana', 1795435200000000, 'I live in Berlin.', DEFAULT);
INSERT INTO stored_a9d2431.chat_memory_documents OVERRIDING SYSTEM VALUE VALUES (2, 1, 'turn', NULL, 'chat-1', 1, 'Ana', 1795435200000000, 'How is the weather?', DEFAULT);
INSERT INTO stored_a9d2431.chat_memory_documents OVERRIDING SYSTEM VALUE VALUES (3, 1, 'turn', NULL, 'chat-1', 2, 'Ana', 1795435200000000, 'It rains.', DEFAULT);
INSERT INTO stored_a9d2431.chat_memory_documents OVERRIDING SYSTEM VALUE VALUES (4, 1, 'turn', NULL, 'chat-1', 3, 'Ana', 1795435200000000, 'I bought a kayak.', DEFAULT);
INSERT INTO stored_a9d2431.chat_memory_documents OVERRIDING SYSTEM VALUE VALUES (5, 1, 'fact', 1, NULL, NULL, NULL, 1795435200000000, 'Ana lives in Berlin', DEFAULT);
INSERT INTO stored_a9d2431.chat_memory_documents OVERRIDING SYSTEM VALUE VALUES (6, 1, 'fact', 2, NULL, NULL, NULL, 1795435200000000, 'Ana lives in Paris', DEFAULT);
INSERT INTO stored_a9d2431.chat_memory_documents OVERRIDING SYSTEM VALUE VALUES (7, 10, 'turn', NULL, 'chat-2', 0, NULL, NULL, 'Tea, please.', DEFAULT);
INSERT INTO stored_a9d2431.chat_memory_entities OVERRIDING SYSTEM VALUE VALUES (1, 1, 'berlin', 'Berlin', 'place', '{}');
INSERT INTO stored_a9d2431.chat_memory_entities OVERRIDING SYSTEM VALUE VALUES (3, 1, 'germany', 'Germany', 'concept', '{}');
INSERT INTO stored_a9d2431.chat_memory_facts OVERRIDING SYSTEM VALUE VALUES (1, 1, 'f6595b34ced71e6ca31de2a02599f053', 'ana', 'lives_in', 'berlin', NULL, 0);
INSERT INTO stored_a9d2431.chat_memory_facts OVERRIDING SYSTEM VALUE VALUES (2, 1, '9e31ddb1ec4830d73f5b1aa6c571e9d3', 'ana', 'lives_in', 'paris', NULL, 0);
INSERT INTO stored_a9d2431.chat_memory_links VALUES (1, 1, 'ana');
INSERT INTO stored_a9d2431.chat_memory_links VALUES (1, 1, 'berlin');
INSERT INTO stored_a9d2431.chat_memory_links VALUES (1, 2, 'ana');
INSERT INTO stored_a9d2431.chat_memory_links VALUES (1, 2, 'paris');
INSERT INTO stored_a9d2431.chat_memory_mentions VALUES (1, '');
INSERT INTO stored_a9d2431.chat_memory_periods VALUES (1, 'current', 1, 1795435200000000, 4611686018427387904, 1);
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('likes');
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('dislikes');
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('uses');
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('knows');
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('speaks');
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('owns');
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('visited');
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('interested_in');
INSERT INTO stored_a9d2431.chat_memory_predicates VALUES ('allergic_to');
INSERT INTO stored_a9d2431.chat_memory_records VALUES (1, 'chat-1', 'report', '{"facts":2}');
INSERT INTO stored_a9d2431.chat_memory_relations OVERRIDING SYSTEM VALUE VALUES (1, 1, 1, 3, 'PART_OF', 'part_of');
INSERT INTO stored_a9d2431.chat_memory_schema VALUES (3);
INSERT INTO stored_a9d2431.chat_memory_scopes OVERRIDING SYSTEM VALUE VALUES (1, 'ana', 7);
INSERT INTO stored_a9d2431.chat_memory_scopes OVERRIDING SYSTEM VALUE VALUES (10, 'ben', 1);
INSERT INTO stored_a9d2431.chat_memory_statements OVERRIDING SYSTEM VALUE VALUES (1, 1, 'session:chat-1:0', 'Ana', 'lives in', 'Berlin', 'Ana lives in Berlin', 'stated', 3, 1, 1795435200000000, 1795435200000000, 4611686018427387904, 1795435200000000, NULL, '{"kind":"session","conversation":"chat-1","turn":0}', '{"outcome":"inserted"}');
INSERT INTO stored_a9d2431.chat_memory_statements OVERRIDING SYSTEM VALUE VALUES (2, 2, 'aaa7f00e241f40e5948a90ff3df8f599', 'Ana', 'lives in', 'Paris', 'Ana lives in Paris', 'inferred', 0, 0.5, 1795435200000000, 1795435200000000, 4611686018427387904, 1795435200000000, NULL, NULL, '{"outcome":"historical"}');
INSERT INTO stored_a9d2431.chat_memory_vectors VALUES (1, 'first', '\x0000803f0000803f');
INSERT INTO stored_a9d2431.chat_memory_vectors VALUES (2, 'first', '\x0000803f00000040');
INSERT INTO stored_a9d2431.chat_memory_vectors VALUES (3, 'first', '\x0000803f00004040');
INSERT INTO stored_a9d2431.chat_memory_vectors VALUES (5, 'first', '\x0000803f0000a040');
INSERT INTO stored_a9d2431.chat_memory_vectors VALUES (1, 'second', '\x0000803f0000004000004040');
SELECT pg_catalog.setval('stored_a9d2431.chat_memory_documents_key_seq', 7, true);
SELECT pg_catalog.setval('stored_a9d2431.chat_memory_entities_key_seq', 3, true);
SELECT pg_catalog.setval('stored_a9d2431.chat_memory_facts_key_seq', 2, true);
SELECT pg_catalog.setval('stored_a9d2431.chat_memory_relations_key_seq', 1, true);
SELECT pg_catalog.setval('stored_a9d2431.chat_memory_scopes_key_seq', 10, true);
SELECT pg_catalog.setval('stored_a9d2431.chat_memory_statements_key_seq', 2, true);
ALTER TABLE ONLY stored_a9d2431.chat_memory_blocks
    ADD CONSTRAINT chat_memory_blocks_pkey PRIMARY KEY (scope, name);
ALTER TABLE ONLY stored_a9d2431.chat_memory_documents
    ADD CONSTRAINT chat_memory_documents_fact_key UNIQUE (fact);
ALTER TABLE ONLY stored_a9d2431.chat_memory_documents
    ADD CONSTRAINT chat_memory_documents_pkey PRIMARY KEY (key);
ALTER TABLE ONLY stored_a9d2431.chat_memory_documents
    ADD CONSTRAINT chat_memory_documents_scope_conversation_position_kind_key UNIQUE (scope, conversation, "position", kind);
ALTER TABLE ONLY stored_a9d2431.chat_memory_entities
    ADD CONSTRAINT chat_memory_entities_pkey PRIMARY KEY (key);
ALTER TABLE ONLY stored_a9d2431.chat_memory_entities
    ADD CONSTRAINT chat_memory_entities_scope_id_key UNIQUE (scope, id);
ALTER TABLE ONLY stored_a9d2431.chat_memory_facts
    ADD CONSTRAINT chat_memory_facts_pkey PRIMARY KEY (key);
ALTER TABLE ONLY stored_a9d2431.chat_memory_facts
    ADD CONSTRAINT chat_memory_facts_scope_id_key UNIQUE (scope, id);
ALTER TABLE ONLY stored_a9d2431.chat_memory_links
    ADD CONSTRAINT chat_memory_links_pkey PRIMARY KEY (fact, entity);
ALTER TABLE ONLY stored_a9d2431.chat_memory_mentions
    ADD CONSTRAINT chat_memory_mentions_pkey PRIMARY KEY (relation, name);
ALTER TABLE ONLY stored_a9d2431.chat_memory_periods
    ADD CONSTRAINT chat_memory_periods_pkey PRIMARY KEY (fact, kind, begins);
ALTER TABLE ONLY stored_a9d2431.chat_memory_predicates
    ADD CONSTRAINT chat_memory_predicates_pkey PRIMARY KEY (predicate);
ALTER TABLE ONLY stored_a9d2431.chat_memory_records
    ADD CONSTRAINT chat_memory_records_pkey PRIMARY KEY (scope, conversation, name);
ALTER TABLE ONLY stored_a9d2431.chat_memory_relations
    ADD CONSTRAINT chat_memory_relations_pkey PRIMARY KEY (key);
ALTER TABLE ONLY stored_a9d2431.chat_memory_relations
    ADD CONSTRAINT chat_memory_relations_source_target_type_label_key UNIQUE (source, target, type, label);
ALTER TABLE ONLY stored_a9d2431.chat_memory_scopes
    ADD CONSTRAINT chat_memory_scopes_pkey PRIMARY KEY (key);
ALTER TABLE ONLY stored_a9d2431.chat_memory_scopes
    ADD CONSTRAINT chat_memory_scopes_scope_key UNIQUE (scope);
ALTER TABLE ONLY stored_a9d2431.chat_memory_statements
    ADD CONSTRAINT chat_memory_statements_fact_name_key UNIQUE (fact, name);
ALTER TABLE ONLY stored_a9d2431.chat_memory_statements
    ADD CONSTRAINT chat_memory_statements_pkey PRIMARY KEY (key);
ALTER TABLE ONLY stored_a9d2431.chat_memory_vectors
    ADD CONSTRAINT chat_memory_vectors_pkey PRIMARY KEY (document, model);
CREATE INDEX chat_memory_documents_scope ON stored_a9d2431.chat_memory_documents USING btree (scope);
CREATE INDEX chat_memory_facts_place ON stored_a9d2431.chat_memory_facts USING btree (scope, subject, predicate);
CREATE INDEX chat_memory_facts_predicate ON stored_a9d2431.chat_memory_facts USING btree (predicate);
CREATE INDEX chat_memory_links_entity ON stored_a9d2431.chat_memory_links USING btree (scope, entity);
CREATE INDEX chat_memory_periods_scope ON stored_a9d2431.chat_memory_periods USING btree (scope, kind, ends);
CREATE INDEX chat_memory_periods_statement ON stored_a9d2431.chat_memory_periods USING btree (statement);
CREATE INDEX chat_memory_relations_scope ON stored_a9d2431.chat_memory_relations USING btree (scope);
CREATE INDEX chat_memory_relations_target ON stored_a9d2431.chat_memory_relations USING btree (target);
CREATE INDEX chat_memory_texts ON stored_a9d2431.chat_memory_documents USING gin (words);
ALTER TABLE ONLY stored_a9d2431.chat_memory_blocks
    ADD CONSTRAINT chat_memory_blocks_scope_fkey FOREIGN KEY (scope) REFERENCES stored_a9d2431.chat_memory_scopes(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_documents
    ADD CONSTRAINT chat_memory_documents_fact_fkey FOREIGN KEY (fact) REFERENCES stored_a9d2431.chat_memory_facts(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_documents
    ADD CONSTRAINT chat_memory_documents_scope_fkey FOREIGN KEY (scope) REFERENCES stored_a9d2431.chat_memory_scopes(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_entities
    ADD CONSTRAINT chat_memory_entities_scope_fkey FOREIGN KEY (scope) REFERENCES stored_a9d2431.chat_memory_scopes(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_facts
    ADD CONSTRAINT chat_memory_facts_scope_fkey FOREIGN KEY (scope) REFERENCES stored_a9d2431.chat_memory_scopes(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_links
    ADD CONSTRAINT chat_memory_links_fact_fkey FOREIGN KEY (fact) REFERENCES stored_a9d2431.chat_memory_facts(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_links
    ADD CONSTRAINT chat_memory_links_scope_fkey FOREIGN KEY (scope) REFERENCES stored_a9d2431.chat_memory_scopes(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_mentions
    ADD CONSTRAINT chat_memory_mentions_relation_fkey FOREIGN KEY (relation) REFERENCES stored_a9d2431.chat_memory_relations(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_periods
    ADD CONSTRAINT chat_memory_periods_fact_fkey FOREIGN KEY (fact) REFERENCES stored_a9d2431.chat_memory_facts(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_periods
    ADD CONSTRAINT chat_memory_periods_scope_fkey FOREIGN KEY (scope) REFERENCES stored_a9d2431.chat_memory_scopes(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_periods
    ADD CONSTRAINT chat_memory_periods_statement_fkey FOREIGN KEY (statement) REFERENCES stored_a9d2431.chat_memory_statements(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_records
    ADD CONSTRAINT chat_memory_records_scope_fkey FOREIGN KEY (scope) REFERENCES stored_a9d2431.chat_memory_scopes(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_relations
    ADD CONSTRAINT chat_memory_relations_scope_fkey FOREIGN KEY (scope) REFERENCES stored_a9d2431.chat_memory_scopes(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_relations
    ADD CONSTRAINT chat_memory_relations_source_fkey FOREIGN KEY (source) REFERENCES stored_a9d2431.chat_memory_entities(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_relations
    ADD CONSTRAINT chat_memory_relations_target_fkey FOREIGN KEY (target) REFERENCES stored_a9d2431.chat_memory_entities(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_statements
    ADD CONSTRAINT chat_memory_statements_fact_fkey FOREIGN KEY (fact) REFERENCES stored_a9d2431.chat_memory_facts(key) ON DELETE CASCADE;
ALTER TABLE ONLY stored_a9d2431.chat_memory_vectors
    ADD CONSTRAINT chat_memory_vectors_document_fkey FOREIGN KEY (document) REFERENCES stored_a9d2431.chat_memory_documents(key) ON DELETE CASCADE;
