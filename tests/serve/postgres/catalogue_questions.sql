-- DBeaver 23, when a connection is opened and its tree is unfolded

SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND datname='tidemill'

SELECT current_schema(),session_user

SHOW search_path

SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON
  d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass ORDER BY nspname

SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description FROM
  pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER JOIN pg_catalog.pg_class c
  ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.typname IS NOT NULL AND
  (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')

SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr,
  pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN
  pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass WHERE
  c.relnamespace=2200 AND c.relkind not in ('i','I','c')

SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid FROM
  pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN
  pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN
  pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on
  dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
  WHERE NOT a.attisdropped AND c.oid='spending'::regclass ORDER BY a.attnum

SELECT pg_catalog.pg_get_viewdef('public.spending'::regclass, true)

SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description FROM pg_catalog.pg_constraint c
  INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid
  LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND
  d.classoid='pg_constraint'::regclass WHERE c.conrelid=16386 ORDER BY c.oid

SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as tabrelname,dsc.description,
  pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as
  expr, pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size FROM pg_catalog.pg_index i INNER JOIN
  pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid LEFT OUTER JOIN
  pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid WHERE i.indrelid=16386 ORDER BY tabrelname, c.relname

SELECT * FROM pg_catalog.pg_settings

SELECT a.oid,a.* FROM pg_catalog.pg_roles a ORDER BY a.rolname

SELECT * FROM pg_catalog.pg_stat_activity sa

SELECT e.oid,e.*,n.nspname as schema_name FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid =
  e.extnamespace

-- pgjdbc 42.5, for DatabaseMetaData

SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME, CASE n.nspname ~ '^pg_' OR n.nspname =
  'information_schema' WHEN true THEN CASE WHEN n.nspname = 'pg_catalog' OR n.nspname = 'information_schema' THEN CASE
  c.relkind WHEN 'r' THEN 'SYSTEM TABLE' WHEN 'v' THEN 'SYSTEM VIEW' ELSE NULL END ELSE NULL END WHEN false THEN CASE
  c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END ELSE NULL END AS TABLE_TYPE, d.description AS
  REMARKS FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d ON (c.oid =
  d.objoid AND d.objsubid = 0 and d.classoid = 'pg_class'::regclass) WHERE c.relnamespace = n.oid AND c.relname LIKE
  'sp%' ORDER BY TABLE_TYPE,TABLE_SCHEM,TABLE_NAME

SELECT * FROM (SELECT n.nspname,c.relname,a.attname,a.atttypid,a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS
  attnotnull,a.atttypmod,a.attlen,t.typtypmod,row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum,
  nullif(a.attidentity, '') as attidentity,nullif(a.attgenerated, '') as
  attgenerated,pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc,dsc.description,t.typbasetype,t.typtype FROM
  pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a ON
  (a.attrelid=c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN pg_catalog.pg_attrdef def ON
  (a.attrelid=def.adrelid AND a.attnum = def.adnum) LEFT JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND
  a.attnum = dsc.objsubid) LEFT JOIN pg_catalog.pg_class dc ON (dc.oid=dsc.classoid AND dc.relname='pg_class') LEFT
  JOIN pg_catalog.pg_namespace dn ON (dc.relnamespace=dn.oid AND dn.nspname='pg_catalog') WHERE c.relkind in
  ('r','p','v','f','m') and a.attnum > 0 AND NOT a.attisdropped AND n.nspname LIKE 'public' AND c.relname LIKE
  'spending') c WHERE true ORDER BY nspname,c.relname,attnum

SELECT result.TABLE_CAT, result.TABLE_SCHEM, result.TABLE_NAME, result.COLUMN_NAME, result.KEY_SEQ, result.PK_NAME
  FROM (SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, ct.relname AS TABLE_NAME, a.attname AS COLUMN_NAME,
  (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, ci.relname AS PK_NAME,
  information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM FROM pg_catalog.pg_class ct JOIN
  pg_catalog.pg_attribute a ON (ct.oid = a.attrelid) JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid) JOIN
  pg_catalog.pg_index i ON ( a.attrelid = i.indrelid) JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) WHERE
  true AND ct.relname = 'spending' AND i.indisprimary ) result where result.A_ATTNUM = (result.KEYS).x ORDER BY
  result.table_name, result.pk_name, result.key_seq

SELECT setting FROM pg_catalog.pg_settings WHERE name='max_index_keys'

-- BI tools, Npgsql and other drivers

SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'VIEW') AND
  table_schema NOT IN ('pg_catalog', 'information_schema')

SELECT column_name, data_type, numeric_precision, numeric_scale FROM information_schema.columns WHERE table_name =
  'spending'

SELECT * FROM information_schema.views WHERE table_schema = 'public'

SELECT * FROM information_schema.key_column_usage

SELECT * FROM information_schema.table_constraints tc JOIN information_schema.referential_constraints rc USING
  (constraint_name)

SELECT nspname FROM pg_namespace WHERE has_schema_privilege(nspname, 'USAGE') AND nspname NOT LIKE 'pg\_%'

SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid FROM (SELECT typ.oid, typ.typname,
  typ.typnamespace, typ.typtype, typ.typnotnull, typ.typelem AS elemtypoid FROM pg_type AS typ LEFT JOIN pg_class AS
  cls ON (cls.oid = typ.typrelid) WHERE typ.typtype IN ('b', 'r', 'm', 'e', 'd')) AS t JOIN pg_namespace AS ns ON
  (ns.oid = typnamespace) ORDER BY oid

SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()

SELECT CAST(current_setting('server_version_num') AS INT) >= 120000, pg_is_in_recovery(), version() LIKE
  'PostgreSQL %'

SELECT set_config('search_path', '', false)

SELECT quote_ident(relname), pg_total_relation_size(oid) FROM pg_class WHERE pg_table_is_visible(oid) ORDER BY 1

SELECT t.typname, t.oid::regtype::text, 'int4'::regtype::oid, to_regclass('public.spending') IS NOT NULL FROM pg_type
  t

SELECT oid::regclass::text FROM pg_class WHERE relkind = 'v'
