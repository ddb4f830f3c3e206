-- In the manner of TPC-DS, over the tables of star_tables.py.

-- brands of a manufacturer in one month, over the years
CREATE MATERIALIZED VIEW brand_sales AS
SELECT d_year, i_brand, sum(ss_price) AS price, sum(ss_profit) AS profit, count(*) AS n
FROM date_dim, store_sales, item
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manufact_id IN (1, 3, 5) AND d_moy = 11
GROUP BY d_year, i_brand;

-- ROLLUP over the item hierarchy, where the columns can be NULL themselves
CREATE MATERIALIZED VIEW item_hierarchy AS
SELECT i_category, i_class, grouping(i_category) + grouping(i_class) AS lochierarchy,
       sum(ss_profit) / sum(ss_price) AS margin, avg(ss_quantity) AS quantity, count(DISTINCT ss_customer_sk) AS customers
FROM store_sales JOIN item ON i_item_sk = ss_item_sk JOIN store ON s_store_sk = ss_store_sk
WHERE s_state IN ('CA', 'TX')
GROUP BY ROLLUP (i_category, i_class);

-- the same over several dimensions, with HAVING
CREATE MATERIALIZED VIEW state_cube AS
SELECT c_state, s_state, grouping_id(c_state, s_state) AS gid, count(*) AS n, max(ss_price) AS dearest,
       min(ss_quantity) AS least
FROM store_sales LEFT JOIN customer ON c_customer_sk = ss_customer_sk LEFT JOIN store ON s_store_sk = ss_store_sk
GROUP BY CUBE (c_state, s_state)
HAVING count(*) > 3;

-- channels side by side
CREATE MATERIALIZED VIEW channels AS
SELECT channel, i_category, d_year, sum(price) AS sales, count(*) AS n, sum(quantity * price) AS turnover
FROM (
  SELECT 'store' AS channel, ss_sold_date_sk AS day, ss_item_sk AS item, ss_quantity AS quantity, ss_price AS price
  FROM store_sales WHERE ss_customer_sk IS NULL
  UNION ALL
  SELECT 'web', ws_sold_date_sk, ws_item_sk, ws_quantity, ws_price FROM web_sales WHERE ws_customer_sk IS NOT NULL)
  AS sold, date_dim, item
WHERE day = d_date_sk AND item = i_item_sk
GROUP BY channel, i_category, d_year;

-- customers who spend more in the second year, and on the web more so
CREATE MATERIALIZED VIEW year_over_year AS
WITH year_total AS (
  SELECT c_customer_sk AS id, c_last_name AS name, d_year, 's' AS channel, sum(ss_price * ss_quantity) AS total
  FROM customer, store_sales, date_dim
  WHERE c_customer_sk = ss_customer_sk AND ss_sold_date_sk = d_date_sk
  GROUP BY c_customer_sk, c_last_name, d_year
  UNION ALL
  SELECT c_customer_sk, c_last_name, d_year, 'w', sum(ws_price * ws_quantity)
  FROM customer, web_sales, date_dim
  WHERE c_customer_sk = ws_customer_sk AND ws_sold_date_sk = d_date_sk
  GROUP BY c_customer_sk, c_last_name, d_year)
SELECT s2.id, s2.name, s1.total AS store1, s2.total AS store2, w1.total AS web1, w2.total AS web2
FROM year_total s1, year_total s2, year_total w1, year_total w2
WHERE s2.id = s1.id AND w1.id = s1.id AND w2.id = s1.id
  AND s1.channel = 's' AND s2.channel = 's' AND w1.channel = 'w' AND w2.channel = 'w'
  AND s1.d_year = 2000 AND s2.d_year = 2001 AND w1.d_year = 2000 AND w2.d_year = 2001
  AND s1.total > 0 AND w1.total > 0
  AND CASE WHEN w1.total > 0 THEN w2.total / w1.total ELSE 0 END
    > CASE WHEN s1.total > 0 THEN s2.total / s1.total ELSE 0 END;

-- customers who return more than is usual for the store
CREATE MATERIALIZED VIEW many_returns AS
WITH returned AS (
  SELECT sr_customer_sk AS customer, sr_store_sk AS store_sk, sum(sr_amount) AS total
  FROM store_returns, date_dim WHERE sr_returned_date_sk = d_date_sk AND d_year = 2000
  GROUP BY sr_customer_sk, sr_store_sk)
SELECT c_customer_sk, s_store_name, r1.total
FROM returned r1, store, customer
WHERE r1.total > (SELECT avg(total) * 1.2 FROM returned r2 WHERE r1.store_sk = r2.store_sk)
  AND s_store_sk = r1.store_sk AND r1.customer = c_customer_sk;

-- states where dear items are bought
CREATE MATERIALIZED VIEW dear_items AS
SELECT c_state, count(*) AS n
FROM customer, store_sales, item i
WHERE c_customer_sk = ss_customer_sk AND ss_item_sk = i.i_item_sk
  AND i.i_current_price > 1.2 * (SELECT avg(j.i_current_price) FROM item j WHERE j.i_category = i.i_category)
GROUP BY c_state
HAVING count(*) >= 2;

-- what is left of sales after returns
CREATE MATERIALIZED VIEW net_sales AS
SELECT ss_customer_sk, sum(act_sales) AS sumsales, count(*) AS n
FROM (
  SELECT ss_customer_sk,
         CASE WHEN sr_quantity IS NOT NULL THEN (ss_quantity - sr_quantity) * ss_price
              ELSE ss_quantity * ss_price END AS act_sales
  FROM store_sales LEFT OUTER JOIN store_returns ON sr_item_sk = ss_item_sk AND sr_ticket = ss_ticket) AS t
GROUP BY ss_customer_sk;

-- sales and returns of a store, either of which may be missing
CREATE MATERIALIZED VIEW store_balance AS
WITH sold AS (SELECT ss_store_sk, d_moy AS moy, sum(ss_price) AS sales, sum(ss_profit) AS profit
              FROM store_sales, date_dim WHERE ss_sold_date_sk = d_date_sk AND d_year = 2001
              GROUP BY ss_store_sk, d_moy),
  back AS (SELECT sr_store_sk, d_moy AS moy, sum(sr_amount) AS amount
           FROM store_returns, date_dim WHERE sr_returned_date_sk = d_date_sk AND d_year = 2001
           GROUP BY sr_store_sk, d_moy)
SELECT coalesce(ss_store_sk, sr_store_sk) AS store_sk, coalesce(sold.moy, back.moy) AS moy, sales,
       coalesce(amount, 0) AS amount, coalesce(profit, 0) - coalesce(amount, 0) AS net
FROM sold FULL OUTER JOIN back ON ss_store_sk = sr_store_sk AND sold.moy = back.moy;

-- sales by day of the week, each week beside the one 52 weeks later
CREATE MATERIALIZED VIEW weeks AS
WITH wscs AS (SELECT ss_sold_date_sk AS day, ss_price AS price FROM store_sales
              UNION ALL SELECT ws_sold_date_sk, ws_price FROM web_sales),
  swk AS (SELECT d_week_seq,
                 sum(CASE WHEN d_day_name = 'Sunday' THEN price ELSE NULL END) AS sun,
                 sum(CASE WHEN d_day_name = 'Wednesday' THEN price ELSE NULL END) AS wed,
                 sum(CASE WHEN d_day_name = 'Saturday' THEN price ELSE NULL END) AS sat
          FROM wscs, date_dim WHERE d_date_sk = day GROUP BY d_week_seq)
SELECT a.d_week_seq, round(a.sun / b.sun, 2) AS sun, round(a.wed / b.wed, 2) AS wed, round(a.sat / nullif(b.sat, 0), 2) AS sat
FROM swk a JOIN swk b ON a.d_week_seq = b.d_week_seq - 52
WHERE (b.sun IS NULL OR b.sun <> 0) AND (b.wed IS NULL OR b.wed <> 0);

-- customers of both channels, of one only, of some day in both
CREATE MATERIALIZED VIEW in_both AS
SELECT c_last_name, d_date FROM store_sales, date_dim, customer
WHERE ss_sold_date_sk = d_date_sk AND ss_customer_sk = c_customer_sk AND d_moy < 7
INTERSECT
SELECT c_last_name, d_date FROM web_sales, date_dim, customer
WHERE ws_sold_date_sk = d_date_sk AND ws_customer_sk = c_customer_sk;

CREATE MATERIALIZED VIEW in_store_only AS
SELECT count(*) AS n FROM (
  SELECT DISTINCT c_last_name, d_moy FROM store_sales, date_dim, customer
  WHERE ss_sold_date_sk = d_date_sk AND ss_customer_sk = c_customer_sk
  EXCEPT
  SELECT DISTINCT c_last_name, d_moy FROM web_sales, date_dim, customer
  WHERE ws_sold_date_sk = d_date_sk AND ws_customer_sk = c_customer_sk) AS cool_cust;

-- active customers by what else they do: EXISTS, OR of EXISTS, NOT EXISTS
CREATE MATERIALIZED VIEW active_customers AS
SELECT c_state, c_birth_year, count(*) AS n, min(c_customer_sk) AS least, max(c_customer_sk) AS most
FROM customer c
WHERE EXISTS (SELECT * FROM store_sales, date_dim
              WHERE c.c_customer_sk = ss_customer_sk AND ss_sold_date_sk = d_date_sk AND d_year = 2001 AND d_moy < 4)
  AND (EXISTS (SELECT * FROM web_sales, date_dim
               WHERE c.c_customer_sk = ws_customer_sk AND ws_sold_date_sk = d_date_sk AND d_year = 2001)
    OR EXISTS (SELECT * FROM store_returns WHERE c.c_customer_sk = sr_customer_sk AND sr_amount > 20))
  AND NOT EXISTS (SELECT * FROM web_sales WHERE c.c_customer_sk = ws_customer_sk AND ws_quantity = 99)
GROUP BY c_state, c_birth_year;

-- buckets chosen by scalar subqueries
CREATE MATERIALIZED VIEW buckets AS
SELECT s_store_sk,
       CASE WHEN (SELECT count(*) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20) > 40
            THEN (SELECT avg(ss_price) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20)
            ELSE (SELECT avg(ss_profit) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20) END AS bucket1,
       CASE WHEN (SELECT count(*) FROM store_sales WHERE ss_quantity BETWEEN 21 AND 40) > 1000000
            THEN (SELECT avg(ss_price) FROM store_sales WHERE ss_quantity BETWEEN 21 AND 40)
            ELSE (SELECT avg(ss_profit) FROM store_sales WHERE ss_quantity BETWEEN 21 AND 40) END AS bucket2
FROM store;

-- one row out of several one-row queries
CREATE MATERIALIZED VIEW one_row AS
SELECT * FROM
  (SELECT avg(ss_price) AS b1_lp, count(ss_price) AS b1_cnt, count(DISTINCT ss_price) AS b1_cntd
   FROM store_sales WHERE ss_quantity BETWEEN 0 AND 50 AND ss_price BETWEEN 8 AND 60) b1,
  (SELECT avg(ss_price) AS b2_lp, count(ss_price) AS b2_cnt, count(DISTINCT ss_price) AS b2_cntd
   FROM store_sales WHERE ss_quantity BETWEEN 51 AND 100 AND ss_price BETWEEN 8 AND 60) b2,
  (SELECT count(*) AS am FROM web_sales WHERE ws_quantity < 10) a,
  (SELECT count(*) AS pm FROM web_sales WHERE ws_quantity > 90) p;

-- manufacturers with an item of some colours
CREATE MATERIALIZED VIEW coloured AS
SELECT DISTINCT i_brand FROM item i1
WHERE i_manufact_id BETWEEN 1 AND 5
  AND (SELECT count(*) FROM item WHERE i_manufact_id = i1.i_manufact_id
       AND ((i_category = 'Books' AND i_color IN ('red', 'blue')) OR (i_category = 'Music' AND i_color = 'green'))) > 0;

-- items that sell badly in a store, compared with the store's average
CREATE MATERIALIZED VIEW slow_items AS
SELECT s_store_name, i_brand, sc.revenue, i_current_price
FROM store, item,
  (SELECT ss_store_sk, avg(revenue) AS ave
   FROM (SELECT ss_store_sk, ss_item_sk, sum(ss_price) AS revenue FROM store_sales GROUP BY ss_store_sk, ss_item_sk) AS sa
   GROUP BY ss_store_sk) AS sb,
  (SELECT ss_store_sk, ss_item_sk, sum(ss_price) AS revenue FROM store_sales GROUP BY ss_store_sk, ss_item_sk) AS sc
WHERE sb.ss_store_sk = sc.ss_store_sk AND sc.revenue <= 0.4 * sb.ave
  AND s_store_sk = sc.ss_store_sk AND i_item_sk = sc.ss_item_sk;

-- best customers, in order
CREATE MATERIALIZED VIEW best_customers AS
SELECT c_customer_sk, c_last_name, sum(spent) AS spent
FROM customer, (
  SELECT ss_customer_sk AS customer, ss_price AS spent FROM store_sales
  UNION ALL SELECT ws_customer_sk, ws_price FROM web_sales
  UNION ALL SELECT sr_customer_sk, -sr_amount FROM store_returns) AS t
WHERE c_customer_sk = customer
GROUP BY c_customer_sk, c_last_name
ORDER BY spent DESC NULLS LAST, c_customer_sk
LIMIT 10;

-- items on sale in both channels at a price that differs: a view over views
CREATE MATERIALIZED VIEW item_prices AS
SELECT item, channel, count(*) AS n, max(price) AS dearest, avg(price) AS usual
FROM (SELECT ss_item_sk AS item, 'store' AS channel, ss_price AS price FROM store_sales
      UNION ALL SELECT ws_item_sk, 'web', ws_price FROM web_sales) AS t
GROUP BY item, channel;

CREATE MATERIALIZED VIEW price_gaps AS
SELECT s.item, i_brand, s.dearest - w.dearest AS gap
FROM item_prices s JOIN item_prices w ON s.item = w.item LEFT JOIN item ON i_item_sk = s.item
WHERE s.channel = 'store' AND w.channel = 'web' AND s.usual > w.usual;
