{{ config(materialized='materialized_view', tblproperties={'priority': 2}) }}
SELECT customer, COUNT(*) AS orders, SUM(amount) AS amount
FROM {{ ref('paid_orders') }}
GROUP BY customer
