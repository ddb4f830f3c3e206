{% materialization materialized_view, adapter='tidemill' %}
  {{ return(tidemill_build()) }}
{% endmaterialization %}

{% materialization view, adapter='tidemill' %}
  {{ return(tidemill_build()) }}
{% endmaterialization %}

{% materialization table, adapter='tidemill' %}
  {{ tidemill_refuse("materialized='table'", "use materialized='materialized_view', which is always up to date") }}
{% endmaterialization %}

{% materialization incremental, adapter='tidemill' %}
  {{ tidemill_refuse("materialized='incremental'",
                     "use materialized='materialized_view', which is incremental, and take is_incremental() out") }}
{% endmaterialization %}

{% materialization snapshot, adapter='tidemill' %}
  {{ tidemill_refuse("snapshots", "CREATE SINK ... INTO delta with mode 'changes' keeps the history of a view") }}
{% endmaterialization %}

{% materialization seed, adapter='tidemill' %}
  {{ tidemill_refuse("seeds", "CREATE TABLE ... USING csv OPTIONS (path ...) in the server's script, as a source()") }}
{% endmaterialization %}

{% macro tidemill_refuse(what, instead) %}
  {{ exceptions.raise_compiler_error("dbt-tidemill has no " ~ what ~ ": " ~ instead) }}
{% endmacro %}

{% macro tidemill_build() %}
  {%- if flags.EMPTY or flags.SAMPLE -%}
    {{ tidemill_refuse("--empty and --sample", "the view would keep these rows only") }}
  {%- elif config.get('contract').enforced -%}
    {{ tidemill_refuse("contracts", "test the columns") }}
  {%- elif config.get('grants') or config.persist_relation_docs() or config.persist_column_docs() -%}
    {{ tidemill_refuse("grants and persist_docs", "the server keeps neither") }}
  {%- endif -%}
  {%- set target = this.incorporate(type=this.MaterializedView) -%}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {%- set statement = adapter.view_statement(target, sql, config.get('tblproperties')) -%}
  {{ write(statement) }}
  {%- set full_refresh = should_full_refresh() and load_cached_relation(this) is not none -%}
  {%- set message = adapter.build_view(target, statement, tidemill_readers(full_refresh), full_refresh) -%}
  {%- do store_raw_result(name='main', message=message, code=message, rows_affected='-1') -%}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target]}) }}
{% endmacro %}

{# The views of models that read this one, if all of them are made again in this run. #}
{% macro tidemill_readers(full_refresh) %}
  {%- set found, left_out = [], [] -%}
  {%- for id in adapter.readers(graph, model.unique_id) -%}
    {%- set node = graph.nodes[id] -%}
    {%- set relation = none -%}
    {%- if node.resource_type == 'model' and node.config.materialized != 'ephemeral' -%}
      {%- set relation = adapter.get_relation(node.database, node.schema, node.alias) -%}
    {%- endif -%}
    {%- if relation is not none -%}
      {%- do found.append(relation) -%}
      {%- do left_out.append(node.name) if id not in selected_resources -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if left_out and full_refresh -%}
    {{ exceptions.raise_compiler_error("views read " ~ model.name ~ " that are not selected (" ~ left_out | join(', ')
       ~ "): dbt run --full-refresh --select " ~ model.name ~ "+") }}
  {%- endif -%}
  {{ return([] if left_out else found) }}
{% endmacro %}
