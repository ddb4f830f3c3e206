{% macro tidemill__get_drop_sql(relation) -%}
  drop view if exists {{ relation }}
{%- endmacro %}

{% macro tidemill__create_schema(relation) -%}
  {{ tidemill_refuse("schema " ~ relation.schema,
                     "views are in public: take 'schema' and 'store_failures' out of profile and config") }}
{%- endmacro %}

{% macro tidemill__create_table_as(temporary, relation, sql) -%}
  {{ tidemill_refuse("tables made of queries", "unit tests and 'store_failures' need them") }}
{%- endmacro %}
